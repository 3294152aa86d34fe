use benthic_core::error::ERROR_TABLE;
use s3s::S3ErrorCode;

#[test]
fn the_error_table_has_only_s3_codes() {
    for row in &ERROR_TABLE {
        let code = S3ErrorCode::from_bytes(row.s3_code.as_bytes());
        assert!(code.is_some_and(|code| !matches!(code, S3ErrorCode::Custom(_))), "{}", row.s3_code);
    }
}
