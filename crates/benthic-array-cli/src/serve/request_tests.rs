use super::address;

#[test]
fn a_url_names_a_pool_and_an_object() {
    let names = |url: &str| address(url).ok();
    let some = |pool: &str, object: &str| Some((pool.to_owned(), object.to_owned()));
    assert_eq!(names("http://127.0.0.1:9000/files/a.nc"), some("files", "a.nc"));
    // As PyActiveStorage writes them.
    assert_eq!(names("http://host/files//dir/a.nc"), some("files", "dir/a.nc"));
    assert_eq!(names("https://host//files/a b.nc"), some("files", "a b.nc"));
    assert_eq!(names("s3://host/files/a%20b%25.nc?versionId=1#x"), some("files", "a b%.nc"));
    for wrong in [
        "",
        "files/a.nc",
        "http://files",
        "http://host/files",
        "http://host/files/",
        "http://host/f/%",
        "http://h/f/%+1",
    ] {
        assert_eq!(names(wrong), None, "{wrong}");
    }
}
