//! `libcls_calls_1.so`: a class for the tests of this package. It makes the context calls that its
//! input lists. A library of your own needs only the code around the methods in this file.

use benthic_core::{
    Class, ClassRegistry, Error, ErrorKind, Method, MethodContext, MethodFlags, MethodResult, Result,
};
use bytes::Bytes;
use std::collections::BTreeMap;

struct Calls;

impl Class for Calls {
    fn name(&self) -> &'static str {
        "calls"
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "makes the context calls that its input lists"
    }

    fn methods(&self) -> &'static [Method] {
        &METHODS
    }
}

/// The attribute in which `change` stores the answers of its read calls, if its input requests it.
const ANSWERS_XATTR: &str = "calls.seen";

static METHODS: [Method; 3] = [
    Method {
        name: "look",
        flags: MethodFlags::READ,
        run: |context, input| Ok(run(context, input)?.into_bytes()),
        result: MethodResult::Output,
        summary: "makes reading calls",
        input: "one call per line",
        output: "one answer per line",
        examples: &["read 0 100", "omap_range - - 10"],
    },
    Method {
        name: "change",
        flags: MethodFlags::READ_WRITE,
        run: |context, input| run(context, input).map(String::into_bytes),
        result: MethodResult::Xattr(ANSWERS_XATTR),
        summary: "makes any calls; fails with the error of the first failed call",
        input: "one call per line",
        output: "one answer per line, if the last call is `keep`",
        examples: &["write 0 data", "stat\nkeep"],
    },
    Method {
        name: "counted",
        flags: MethodFlags::READ,
        run: |context, input| Ok(run(context, input)?.into_bytes()),
        result: MethodResult::Output,
        summary: "the same as `look`, for the test that counts its calls",
        input: "one call per line",
        output: "one answer per line",
        examples: &["stat", "panic"],
    },
];

fn run(context: &mut MethodContext<'_>, input: &[u8]) -> Result<String> {
    let script = String::from_utf8_lossy(input);
    let mut answers = String::new();
    for line in script.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if words == ["keep"] {
            context.set_xattr(ANSWERS_XATTR, answers.clone())?;
            continue;
        }
        answers.push_str(&call(context, &words)?);
        answers.push('\n');
    }
    Ok(answers)
}

fn call(context: &mut MethodContext<'_>, words: &[&str]) -> Result<String> {
    let done = |()| "done".to_owned();
    match words {
        ["stat"] => context.stat().map(|stat| stat.size_bytes.to_string()),
        // For calls that are expected to fail.
        ["try", rest @ ..] => Ok(call(context, rest).unwrap_or_else(|error| error.kind().to_string())),
        ["read", offset, len] => context.read(number(offset)?, number(len)?).map(|data| text(&data)),
        ["get_xattr", name] => context.get_xattr(name).map(|value| text(&value)),
        ["list_xattrs"] => {
            context.list_xattrs().map(|xattrs| xattrs.into_keys().collect::<Vec<_>>().join(" "))
        }
        ["omap_get", keys @ ..] => context.omap_get(&bytes(keys)).map(|found| entries(&found)),
        ["omap_range", after, prefix, entries_max] => {
            let after = (*after != "-").then_some(after.as_bytes());
            let prefix = if *prefix == "-" { "" } else { prefix };
            let entries_max = usize::try_from(number(entries_max)?).unwrap_or(usize::MAX);
            let page = context.omap_range(after, prefix.as_bytes(), entries_max)?;
            let last = page.entries.last().map_or(String::new(), |(key, _)| text(key));
            Ok(format!("count={} last={last} more={}", page.entries.len(), page.more))
        }
        ["create"] => context.create(false).map(done),
        ["create_exclusive"] => context.create(true).map(done),
        ["write", offset, data] => context.write(number(offset)?, (*data).to_owned()).map(done),
        ["write_many", offset, len] => {
            let len_bytes = usize::try_from(number(len)?).unwrap_or(usize::MAX);
            context.charge_memory(len_bytes as u64)?;
            context.write(number(offset)?, vec![b'x'; len_bytes]).map(done)
        }
        ["write_full", data] => context.write_full((*data).to_owned()).map(done),
        ["append", data] => context.append((*data).to_owned()).map(done),
        ["truncate", size] => context.truncate(number(size)?).map(done),
        ["zero", offset, len] => context.zero(number(offset)?, number(len)?).map(done),
        ["remove"] => context.remove().map(done),
        ["set_xattr", name, value] => context.set_xattr(name, (*value).to_owned()).map(done),
        ["omap_set", key, value] => {
            let key = Bytes::copy_from_slice(key.as_bytes());
            context.omap_set(BTreeMap::from([(key, Bytes::copy_from_slice(value.as_bytes()))])).map(done)
        }
        ["omap_set_none"] => context.omap_set(BTreeMap::new()).map(done),
        ["omap_fill", count, value_bytes] => {
            let value_bytes = usize::try_from(number(value_bytes)?).unwrap_or(usize::MAX);
            let value = Bytes::from(vec![b'v'; value_bytes]);
            let fill = (0..number(count)?).map(|at| (Bytes::from(format!("k{at:04}")), value.clone()));
            context.omap_set(fill.collect()).map(done)
        }
        ["omap_remove", keys @ ..] => context.omap_remove(&bytes(keys)).map(done),
        ["omap_clear"] => context.omap_clear().map(done),
        ["fail", message @ ..] => Err(Error::new(ErrorKind::Busy, message.join(" "))),
        // As an endless loop that never calls the context, but it takes no CPU time.
        ["hang"] => loop {
            std::thread::park();
        },
        ["panic"] => panic!("as requested"),
        _ => Err(Error::new(ErrorKind::InvalidArgument, "no such call")),
    }
}

fn number(word: &str) -> Result<u64> {
    word.parse().map_err(|error| Error::new(ErrorKind::InvalidArgument, "not a number").with_source(error))
}

fn bytes(words: &[&str]) -> Vec<Bytes> {
    words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}

fn entries(found: &[(Bytes, Bytes)]) -> String {
    let entry = |(key, value): &(Bytes, Bytes)| format!("{}={}", text(key), text(value));
    found.iter().map(entry).collect::<Vec<_>>().join(" ")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "0")
}

benthic_cls::export!("calls_1", ClassRegistry::new().with(Calls));
