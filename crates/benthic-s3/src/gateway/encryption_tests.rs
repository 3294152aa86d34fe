use super::{Seal, SealedBy, Wrap, encryption_of, kms_arn, sealed_name};
use crate::sal::encryption::ENCRYPTION;
use crate::sal::{Attributes, DataKey};
use crate::seal::{Sealer, hex};
use benthic_core::Environment;

fn kms(context: Option<&str>) -> SealedBy {
    let context = context.map(str::to_owned);
    SealedBy::Kms { arn: kms_arn("here", "lab", "1"), version: 0, context, bucket_key: None }
}

#[test]
fn a_sealed_data_key_is_bound_to_its_object_and_context() {
    let sealer = || Sealer::with_key([7; 32], Environment::default());
    let mut attributes = Attributes::new();
    let seal = Seal { by: kms(Some("e30=")), wrap: Wrap::Sealer(sealer()), customer_md5: None };
    let key = DataKey::draw(&Environment::default()).expect("random numbers");
    let sealed = futures::executor::block_on(seal.seal(key, "photos", "reef", &mut attributes));
    let encryption = sealed.expect("a seal");
    let stored = encryption_of(&attributes).expect("a document").expect("an encrypted object");
    assert_eq!(stored.by, encryption.by);
    let open = |bucket: &str, key: &str, by: &SealedBy| {
        sealer().open_secret(&sealed_name(bucket, key, by), &stored.data_key)
    };
    assert_eq!(open("photos", "reef", &stored.by).ok(), Some(hex(encryption.data_key().as_bytes())));
    for (bucket, key, by) in [
        ("photos", "reef2", &stored.by),
        ("photo", "s/reef", &stored.by),
        ("other", "reef", &stored.by),
        ("photos", "reef", &kms(Some("e31="))),
        ("photos", "reef", &kms(None)),
    ] {
        assert!(open(bucket, key, by).is_err(), "{bucket} {key} {by:?}");
    }
    assert!(!String::from_utf8_lossy(&attributes[ENCRYPTION]).contains(&hex(&[7; 32])));
}
