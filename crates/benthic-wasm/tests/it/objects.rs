//! Other objects of a method: what a manifest may declare, and the input that a call gets.

use benthic_core::codec::{Decoder, Wire};
use benthic_core::{Error, ErrorKind};
use benthic_wasm::{COLLECTED_BYTES_MAX, Manifest, MethodManifest};
use bytes::Bytes;

/// A manifest whose method has these fields, too.
fn parse(fields: &str) -> Result<Manifest, Error> {
    let json = format!(r#"{{"class":"c","version":1,"methods":[{{"method":"run","reads":true,{fields}}}]}}"#);
    Manifest::parse(json.as_bytes())
}

fn method(objects: &[&str]) -> MethodManifest {
    let objects = format!("\"objects\":{}", serde_json::to_string(objects).unwrap());
    parse(&objects).unwrap().methods.remove(0)
}

#[test]
fn a_manifest_declares_objects() {
    assert_eq!(method(&["stopwords", "schema_2"]).objects, ["stopwords", "schema_2"]);
    let many: Vec<String> = (0..17).map(|number| format!("o{number}")).collect();
    parse(&format!("\"objects\":{}", serde_json::to_string(&many[..16]).unwrap())).unwrap();
    for (fields, text) in [
        (format!("\"objects\":{}", serde_json::to_string(&many).unwrap()), "too many objects"),
        (r#""objects":["a","b","a"]"#.to_owned(), "twice"),
        (r#""objects":[""]"#.to_owned(), "lower-case letters"),
        (r#""objects":["A"]"#.to_owned(), "lower-case letters"),
        (r#""objects":["2a"]"#.to_owned(), "lower-case letters"),
        (r#""objects":["a=b"]"#.to_owned(), "lower-case letters"),
        (format!(r#""objects":["{}"]"#, "a".repeat(65)), "lower-case letters"),
        (r#""objects":["a"],"merges":true"#.to_owned(), "merges results"),
        (r#""objects":"a""#.to_owned(), "lacks a field"),
    ] {
        let error = parse(&fields).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(text), "{fields}: {error}");
    }
}

/// Older builds do not know the field.
#[test]
fn a_manifest_without_objects_does_not_mention_them() {
    let json = |manifest: &Manifest| serde_json::to_string(manifest).unwrap();
    assert!(!json(&parse(r#""objects":[]"#).unwrap()).contains("objects"));
    assert!(json(&parse(r#""objects":["a"]"#).unwrap()).contains(r#""objects":["a"]"#));
}

#[test]
fn what_is_given_must_be_what_is_declared() {
    let given = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), name.len())).collect();
    let two = method(&["long", "b"]);
    assert_eq!(two.in_declared_order(given(&["b", "long"])).unwrap(), [4, 1]);
    for (method, names, text) in [
        (
            &two,
            &["b"][..],
            "needs another object; give it as --object NAME=POOL/OBJECT, in Python in objects= name=long",
        ),
        (&two, &["b", "long", "other"], "use one of its names: long, b"),
        (&two, &["b", "long", "b"], "twice"),
        (&method(&[]), &["b"], "declares no objects"),
    ] {
        let error = method.in_declared_order(given(names)).unwrap_err();
        let shown = error.text().replace("method=run ", "");
        assert!(error.kind() == ErrorKind::InvalidArgument && shown.contains(text), "{shown}");
    }
}

#[test]
fn the_input_is_a_list_only_if_objects_are_declared() {
    let input = Bytes::from("input");
    assert_eq!(method(&[]).collect(input.clone(), &[]).unwrap(), input);
    let contents = [Bytes::from("first"), Bytes::new()];
    let list = method(&["a", "b"]).collect(input.clone(), &contents).unwrap();
    let parts = Vec::<Bytes>::get(&mut Decoder::sharing(&list)).unwrap();
    assert_eq!(parts, [input, contents[0].clone(), contents[1].clone()]);
}

#[test]
fn the_input_has_a_limit() {
    let half = COLLECTED_BYTES_MAX as usize / 2;
    let collect =
        |content_bytes: usize| method(&["a"]).collect(vec![0; half].into(), &[vec![0; content_bytes].into()]);
    assert!(collect(half).is_ok());
    assert_eq!(collect(half + 1).unwrap_err().kind(), ErrorKind::LimitExceeded);
}
