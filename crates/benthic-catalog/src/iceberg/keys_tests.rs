use super::{Content, File, Folder, FormatVersion, Key};
use benthic_table::ids::{Id, Role, TableObject};

fn folder(table: &str) -> Folder {
    Folder { pool: "lake".to_owned(), table: table.to_owned(), id: Id(0xab) }
}

#[test]
fn every_file_has_a_key_that_parses() {
    let list = TableObject { role: Role::List, writer: Id(7), number: 3 };
    let object = TableObject { role: Role::Data, writer: Id(u64::MAX), number: 0 };
    let files = [
        File::VersionHint,
        File::Metadata { snapshot: 12, format: FormatVersion::V2 },
        File::Metadata { snapshot: 12, format: FormatVersion::V3 },
        File::ManifestList { snapshot: 1, format: FormatVersion::V2 },
        File::ManifestList { snapshot: 1, format: FormatVersion::V3 },
        File::Manifest { list, schema: 4, content: Content::Data },
        File::Manifest { list, schema: 0, content: Content::Deletes },
        File::Manifest { list, schema: 1, content: Content::Vectors },
        File::Deletes { list, object },
        File::Vector { list, object },
        File::Data(object),
        File::Nested(object),
    ];
    for table in ["trips", "a-b", "Strömung 7#?%~+", "x-00000000000000ab"] {
        for file in files {
            let key = Key { folder: folder(table), file };
            let text = key.to_string();
            assert!(
                text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/.-_~".contains(&byte)),
                "{text}"
            );
            assert_eq!(Key::parse(&text), Some(key), "{text}");
        }
    }
}

#[test]
fn other_keys_are_no_files() {
    let valid = "lake/trips-00000000000000ab/data/0000000000000007-3.parquet";
    assert!(Key::parse(valid).is_some());
    for text in [
        "",
        "lake",
        "lake/trips",
        "lake/trips-00000000000000ab",
        "lake/trips-00000000000000ab/",
        "lake/trips-00000000000000AB/data/0000000000000007-3.parquet",
        "lake/trips-ab/data/0000000000000007-3.parquet",
        "lake/trips-00000000000000ab/data/0000000000000007-03.parquet",
        "lake/trips-00000000000000ab/data/../0000000000000007-3.parquet",
        "lake/tr~69ps-00000000000000ab/data/0000000000000007-3.parquet",
        "lake/~-00000000000000ab/data/0000000000000007-3.parquet",
        "lake/~c3-00000000000000ab/data/0000000000000007-3.parquet",
        "lake/trips-00000000000000ab/metadata/v.metadata.json",
        "lake/trips-00000000000000ab/metadata/v+1.metadata.json",
        "lake/trips-00000000000000ab/metadata/v-format3.metadata.json",
        "lake/trips-00000000000000ab/metadata/v1-format2.metadata.json",
        "lake/trips-00000000000000ab/metadata/v99999999999999999999.metadata.json",
        "lake/trips-00000000000000ab/metadata/0000000000000007-3-schema0-other.avro",
    ] {
        assert_eq!(Key::parse(text), None, "{text}");
    }
}
