//! Queries in a method of a class, as the class `table` runs them.

use crate::{batch, file, request};
use arrow_array::{ArrayRef, Int64Array, StringArray};
use benthic_classes::select::run_beside;
use benthic_classes::select::wire::{Head, Input, decode_answer};
use benthic_core::{
    Class, ClassCall, ClassRegistry, ErrorKind, Method, MethodContext, MethodFlags, MethodResult, ObjectId,
    Result, Store,
};
use benthic_embedded::MemStore;
use benthic_parquet::rows;
use bytes::Bytes;
use futures::executor::block_on;
use parquet::file::properties::WriterProperties;
use std::sync::Arc;

struct Queries;

impl Class for Queries {
    fn name(&self) -> &'static str {
        "queries"
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "queries on Parquet"
    }

    fn methods(&self) -> &'static [Method] {
        &METHODS
    }
}

static METHODS: [Method; 1] = [Method {
    name: "select",
    flags: MethodFlags::READ,
    run: |context: &mut MethodContext<'_>, input| {
        run_beside(context, input, rows::MEMORY_BYTES, |select, host| {
            let size_bytes = host.size_bytes();
            rows::run(select, host, size_bytes)
        })
    },
    result: MethodResult::Output,
    summary: "selects records",
    input: "a request",
    output: "an answer",
    examples: &[],
}];

fn call(data: &Bytes, input: String) -> Result<(Head, String)> {
    let classes = ClassRegistry::new().with(Queries);
    let store = MemStore::new(benthic_embedded::Options::default().with_classes(classes));
    block_on(store.create_pool("p"))?;
    let pool = block_on(store.open_pool("p"))?;
    let object = ObjectId::new("o")?;
    block_on(pool.write_full(&object, data.clone()))?;
    let answer = block_on(pool.exec(&object, ClassCall::new("queries", "select", input)))?;
    let (head, start) = decode_answer(&answer).unwrap();
    Ok((head, String::from_utf8(answer[start..].to_vec()).unwrap()))
}

#[test]
fn a_class_answers_records_and_faults() {
    let rows = 20_000;
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let texts = StringArray::from_iter_values((0..rows).map(|id| format!("{id:0500}")));
    let properties = WriterProperties::builder().set_dictionary_enabled(false);
    let data = file(&batch([("id", ids), ("text", Arc::new(texts))]), properties);
    let ask = |query: &str| call(&data, serde_json::to_string(&request(query)).unwrap());
    let (head, records) = ask("SELECT s.id FROM S3Object s WHERE s.id >= 19999").unwrap();
    assert_eq!((records.as_str(), head.failure), ("{\"id\":19999}\n", None));
    assert_eq!(head.totals.returned_bytes, records.len() as u64);
    assert!(head.totals.scanned_bytes < data.len() as u64 / 10, "{:?}", head.totals);
    let (head, records) = ask("SELECT s.id / (s.id - 2) AS x FROM S3Object s").unwrap();
    assert_eq!(
        (records.as_str(), &*head.failure.unwrap().code),
        ("{\"x\":0}\n{\"x\":-1}\n", "EvaluatorInvalidArguments")
    );
    // A larger answer than the class gives is the gateway's part.
    assert_eq!(ask("SELECT * FROM S3Object").unwrap_err().kind(), ErrorKind::LimitExceeded);
    let lines = benthic_classes::select::wire::Request {
        input: Input::JsonLines,
        ..request("SELECT * FROM S3Object")
    };
    let (head, _) = call(&data, serde_json::to_string(&lines).unwrap()).unwrap();
    assert_eq!(head.failure.unwrap().code, "InvalidDataSource");
}
