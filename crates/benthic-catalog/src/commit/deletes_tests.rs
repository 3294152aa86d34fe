use super::{Deletes, PATH, POSITION};
use crate::iceberg::keys::{File, Folder, Key};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use benthic_core::{ErrorKind, Result};
use benthic_table::ids::{Id, Role, TableObject};
use benthic_table::{FileEntry, Rows};
use std::sync::Arc;

fn folder(table: &str) -> Folder {
    Folder { pool: "lake".to_owned(), table: table.to_owned(), id: Id(7) }
}

fn object(number: u32) -> TableObject {
    TableObject { role: Role::Data, writer: Id(9), number }
}

fn uri(table: &str, number: u32) -> String {
    Key { folder: folder(table), file: File::Data(object(number)) }.uri()
}

fn entry(number: u32, rows: u64) -> FileEntry {
    let object = object(number);
    FileEntry { object, schema: 0, partition: None, rows, bytes: 1, deleted: None, groups: Vec::new() }
}

fn batch(rows: &[(String, i64)]) -> RecordBatch {
    let paths = StringArray::from_iter_values(rows.iter().map(|(path, _)| path));
    let positions = Int64Array::from_iter_values(rows.iter().map(|(_, position)| *position));
    let columns: [(&str, ArrayRef); 2] = [(PATH, Arc::new(paths)), (POSITION, Arc::new(positions))];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn read(rows: &[(String, i64)]) -> Result<Deletes> {
    let mut deletes = Deletes::default();
    deletes.add(&batch(rows), &folder("trips"))?;
    Ok(deletes)
}

#[test]
fn rows_may_come_in_any_order_and_twice() {
    let (first, second) = (uri("trips", 0), uri("trips", 1));
    let given = [(&first, 5), (&second, 0), (&first, 6), (&first, 1), (&first, 5), (&second, 9)];
    let mut deletes = read(&given.map(|(path, position)| (path.clone(), position))).unwrap();
    let rows = deletes.take(File::Data(object(0)), &entry(0, 10)).unwrap();
    assert_eq!(rows, Some(Rows::new(vec![1..2, 5..7], 10)));
    assert_eq!(deletes.left(), Some(File::Data(object(1))));
    // The last row of the file.
    let rows = deletes.take(File::Data(object(1)), &entry(1, 10)).unwrap();
    assert_eq!(rows, Some(Rows::new(vec![0..1, 9..10], 10)));
    assert_eq!(deletes.take(File::Data(object(1)), &entry(1, 10)).unwrap(), None);
    assert_eq!(deletes.left(), None);
}

#[test]
fn rows_that_no_file_has_are_refused() {
    for position in [-1, i64::MIN, i64::from(u32::MAX), i64::from(u32::MAX) + 1, i64::MAX] {
        let refused = read(&[(uri("trips", 0), position)]).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{position}");
    }
    let mut deletes = read(&[(uri("trips", 0), 10)]).unwrap();
    let refused = deletes.take(File::Data(object(0)), &entry(0, 10)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn only_files_of_the_table_are_named() {
    let own = uri("trips", 0);
    let not_canonical = own.replace("data/", "data/../data/");
    for path in [uri("other", 0), own.replace("s3:", "file:"), not_canonical, String::new()] {
        let refused = read(&[(own.clone(), 1), (path.clone(), 1)]).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{path}");
    }
    // The table shows this object under the other name.
    let nested = File::Nested(object(0));
    let mut deletes = read(&[(Key { folder: folder("trips"), file: nested }.uri(), 1)]).unwrap();
    assert_eq!(deletes.take(File::Data(object(0)), &entry(0, 10)).unwrap(), None);
    assert_eq!(deletes.left(), Some(nested));
}

#[test]
fn nulls_and_missing_columns_are_refused() {
    let whole = batch(&[(uri("trips", 0), 1)]);
    let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None::<i64>]));
    let paths = Arc::clone(whole.column(0));
    let with_null = RecordBatch::try_from_iter([(PATH, paths), (POSITION, nulls)]).unwrap();
    for damaged in [with_null, whole.project(&[0]).unwrap(), whole.project(&[1]).unwrap()] {
        let refused = Deletes::default().add(&damaged, &folder("trips")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }
}
