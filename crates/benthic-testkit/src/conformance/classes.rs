//! Class methods within operations: their input state, the state they leave, and rollback. The
//! cases call the class `hello`.

use super::Case;
use super::support::{ObjectContent, kind};
use benthic_core::{Compare, ErrorKind, ObjectId, ReadOp, ReadOutput, WriteOp, limits};
use bytes::Bytes;

/// The state that `old_and_new` read before it changed the object, as JSON.
async fn seen(case: &Case<'_>, object: &ObjectId) -> String {
    let seen = case.pool.get_xattr(object, "hello.seen").await.unwrap();
    str::from_utf8(&seen).unwrap().to_owned()
}

fn json(size: u64, data: &str, xattrs: &str, omap_keys: &str) -> String {
    format!(r#"{{"size_bytes":{size},"data":{data},"xattrs":{xattrs},"omap_keys":{omap_keys}}}"#)
}

fn letters(count: usize) -> String {
    format!("\"{}\"", "a".repeat(count))
}

pub(super) async fn a_store_describes_its_classes(case: &Case<'_>) {
    let classes = case.store.classes().await.unwrap();
    let hello = classes.iter().find(|class| class.name == "hello").unwrap();
    assert!(hello.version >= 1 && !hello.build.is_empty() && !hello.summary.is_empty());
    for (name, reads, writes, result_xattr) in [
        ("replay", true, false, None),
        ("record", false, true, Some("hello.greeting")),
        ("old_and_new", true, true, Some("hello.seen")),
    ] {
        let method = hello.methods.iter().find(|method| method.name == name).unwrap();
        assert_eq!(
            (method.reads, method.writes, method.result_xattr.as_deref()),
            (reads, writes, result_xattr)
        );
        assert!(!method.summary.is_empty() && !method.input.is_empty() && !method.output.is_empty());
    }
    assert!(classes.iter().any(|class| class.name == "digest"));
}

pub(super) async fn a_read_method_returns_its_output(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write(&object, WriteOp::new().set_xattr("hello.greeting", "Moin")).await.unwrap();
    let version = case.version(&object).await;
    assert_eq!(case.exec(&object, "hello", "replay", "").await.unwrap(), "Moin");
    assert_eq!(case.exec(&object, "hello", "say", "Ada").await.unwrap(), "Hello, Ada!");
    assert_eq!(case.version(&object).await, version);
}

pub(super) async fn a_write_method_returns_nothing_and_stores_its_result(case: &Case<'_>) {
    let object = case.object("o");
    assert_eq!(case.exec(&object, "hello", "record", "Ada").await.unwrap(), "");
    let greeting = "Hello, Ada!";
    assert_eq!(
        case.state(&object).await,
        Some(ObjectContent::data(greeting).xattr("hello.greeting", greeting))
    );
    assert_eq!(case.exec(&object, "hello", "replay", "").await.unwrap(), greeting);
    assert_eq!(kind(case.exec(&object, "hello", "record", "Ada").await), ErrorKind::AlreadyExists);
}

pub(super) async fn a_method_that_does_not_write_needs_the_object(case: &Case<'_>) {
    let object = case.object("o");
    for method in ["say", "replay", "hoard", "write_undeclared"] {
        assert_eq!(kind(case.exec(&object, "hello", method, "").await), ErrorKind::NotFound, "{method}");
        let op = ReadOp::new().exec("hello", method, "");
        assert_eq!(kind(case.pool.read(&object, op).await), ErrorKind::NotFound, "{method}");
        let op = WriteOp::new().exec("hello", method, "");
        assert_eq!(kind(case.pool.write(&object, op.clone()).await), ErrorKind::NotFound, "{method}");
        // A later step that creates the object does not change the error.
        assert_eq!(kind(case.pool.write(&object, op.create(true)).await), ErrorKind::NotFound, "{method}");
    }
    assert_eq!(case.state(&object).await, None);
}

pub(super) async fn a_write_method_that_writes_nothing_changes_nothing(case: &Case<'_>) {
    let missing = case.object("missing");
    assert_eq!(case.exec(&missing, "hello", "nothing", "").await.unwrap(), "");
    case.pool.write(&missing, WriteOp::new().exec("hello", "nothing", "")).await.unwrap();
    assert_eq!(case.state(&missing).await, None);
    let object = case.make_full("o").await;
    let version = case.version(&object).await;
    // The engine discards the method's output, although the method wrote nothing.
    assert_eq!(case.exec(&object, "hello", "nothing", "").await.unwrap(), "");
    let reply = case.pool.write(&object, WriteOp::new().exec("hello", "nothing", "")).await.unwrap();
    assert_eq!(reply.version, version);
    assert_eq!(case.version(&object).await, version);
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
}

pub(super) async fn a_method_reads_the_old_object_and_stats_the_new(case: &Case<'_>) {
    let object = case.make_full("o").await;
    case.exec(&object, "hello", "old_and_new", "bbb").await.unwrap();
    assert_eq!(seen(case, &object).await, json(103, &letters(64), r#"["X"]"#, r#"["K"]"#));
    let state = case.state(&object).await.unwrap();
    assert_eq!(state.data, "a".repeat(100) + "bbb");
    assert_eq!(state.omap.keys().collect::<Vec<_>>(), ["K", "hello.new"]);
    case.exec(&object, "hello", "old_and_new", "c").await.unwrap();
    assert_eq!(
        seen(case, &object).await,
        json(104, &letters(64), r#"["X","hello.seen"]"#, r#"["K","hello.new"]"#)
    );
}

/// The method declares only the write flag.
pub(super) async fn a_method_appends_after_its_own_changes(case: &Case<'_>) {
    let object = case.object("o");
    for (line, expected) in [("ab", "ab\n"), ("", "ab\n\n"), ("c", "ab\n\nc\n")] {
        case.exec(&object, "hello", "append_line", line).await.unwrap();
        assert_eq!(case.state(&object).await, Some(ObjectContent::data(expected)));
    }
    let op = WriteOp::new().exec("hello", "append_line", "d").append("e");
    case.check_write(&object, op, Some(ObjectContent::data("ab\n\nc\nd\ne"))).await;

    let max = limits::OBJECT_BYTES_MAX;
    case.pool.write(&object, WriteOp::new().truncate(max - 1)).await.unwrap();
    let version = case.version(&object).await;
    let too_large = case.exec(&object, "hello", "append_line", "f").await;
    assert_eq!(kind(too_large), ErrorKind::LimitExceeded);
    assert_eq!((case.size(&object).await, case.version(&object).await), (max - 1, version));
    case.exec(&object, "hello", "append_line", "").await.unwrap();
    assert_eq!(case.pool.read_range(&object, max - 2, 5).await.unwrap(), "\0\n");
    case.pool.remove(&object).await.unwrap();
}

/// An OSD reports empty data and an empty omap for a missing object. The contract returns
/// `not_found` instead, as for attributes.
pub(super) async fn a_method_on_a_missing_object_reads_not_found(case: &Case<'_>) {
    let object = case.object("o");
    case.exec(&object, "hello", "old_and_new", "abc").await.unwrap();
    assert_eq!(seen(case, &object).await, json(3, "null", "null", "null"));
    assert_eq!(case.state(&object).await.unwrap().data, "abc");
    // An empty object exists.
    let empty = case.object("empty");
    case.pool.write(&empty, WriteOp::new().create(true)).await.unwrap();
    case.exec(&empty, "hello", "old_and_new", "abc").await.unwrap();
    assert_eq!(seen(case, &empty).await, json(3, r#""""#, "[]", "[]"));
}

/// A method may be called only once, as the first step. If earlier steps or another method have
/// changed the object, reads of that method on an OSD return anything from old bytes to a crash.
pub(super) async fn a_method_is_the_first_step_and_the_only_method(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let missing = case.object("missing");
    for op in [
        WriteOp::new().create(false).exec("hello", "old_and_new", ""),
        WriteOp::new().write_full("x").exec("hello", "say", ""),
        WriteOp::new().exec("hello", "old_and_new", "").exec("hello", "old_and_new", ""),
        WriteOp::new().exec("hello", "say", "").append("x").exec("hello", "say", ""),
    ] {
        for object in [&object, &missing] {
            let result = case.pool.write(object, op.clone()).await;
            assert_eq!(kind(result), ErrorKind::InvalidArgument, "{op:?}");
        }
    }
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
    assert_eq!(case.state(&missing).await, None);
}

pub(super) async fn steps_after_a_method_see_its_changes(case: &Case<'_>) {
    let object = case.object("o");
    let op = WriteOp::new().exec("hello", "record", "Ada").append("!!").set_xattr("a", "1");
    case.pool.write(&object, op).await.unwrap();
    let expected =
        ObjectContent::data("Hello, Ada!!!").xattr("a", "1").xattr("hello.greeting", "Hello, Ada!");
    assert_eq!(case.state(&object).await, Some(expected));

    let object = case.make_full("full").await;
    let op = WriteOp::new().exec("hello", "old_and_new", "b").remove_xattr("hello.seen").omap_remove(["K"]);
    case.pool.write(&object, op.truncate(102).write(1, "c")).await.unwrap();
    let state = case.state(&object).await.unwrap();
    assert_eq!(state.data, format!("ac{}b\0", "a".repeat(98)));
    assert_eq!(state.xattrs, ObjectContent::full().xattrs);
    assert_eq!(state.omap.keys().collect::<Vec<_>>(), ["hello.new"]);
    let op = WriteOp::new().exec("hello", "old_and_new", "b").remove();
    case.pool.write(&object, op).await.unwrap();
    assert_eq!(case.state(&object).await, None);
}

pub(super) async fn a_method_that_fails_undoes_the_operation(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let version = case.version(&object).await;
    let missing = case.object("missing");
    for (method, input, expected) in [
        ("fail_after_writing", "", ErrorKind::InvalidArgument),
        ("errno", "busy", ErrorKind::Busy),
        ("errno", "already_exists", ErrorKind::AlreadyExists),
        ("panic", "", ErrorKind::ClassFailed),
        ("read_after_write", "data", ErrorKind::ClassFailed),
        ("replay", "", ErrorKind::NotFound),
    ] {
        let op = WriteOp::new().exec("hello", method, input).write_full("x").set_xattr("X", "2");
        for object in [&object, &missing] {
            assert_eq!(kind(case.pool.write(object, op.clone()).await), expected, "{method}");
        }
        assert_eq!(case.state(&object).await, Some(ObjectContent::full()), "{method}");
        assert_eq!(case.version(&object).await, version, "{method}");
        assert_eq!(case.state(&missing).await, None, "{method}");
    }
}

pub(super) async fn a_step_or_guard_that_fails_undoes_the_method(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let version = case.version(&object).await;
    let op = || WriteOp::new().exec("hello", "old_and_new", "x");
    for (failing, expected) in [
        (op().create(true), ErrorKind::AlreadyExists),
        (op().remove().remove(), ErrorKind::NotFound),
        (op().cmp_xattr("X", Compare::Eq, "2"), ErrorKind::Conflict),
        (op().cmp_omap("K", "W"), ErrorKind::Conflict),
        // An OSD answers these with ERANGE and EOVERFLOW. A method may return these codes too, so
        // the engine must tell them apart.
        (op().assert_version(if version > 1 { version - 1 } else { version + 2 }), ErrorKind::Conflict),
        (op().assert_version(version + 1), ErrorKind::Conflict),
        // Guards are checked before the method runs.
        (op().cmp_xattr("hello.seen", Compare::Ne, ""), ErrorKind::Conflict),
    ] {
        assert_eq!(kind(case.pool.write(&object, failing.clone()).await), expected, "{failing:?}");
        assert_eq!(case.state(&object).await, Some(ObjectContent::full()), "{failing:?}");
    }
    let guarded = op().assert_version(version).assert_exists();
    case.pool.write(&object, guarded).await.unwrap();
    assert_eq!(case.size(&object).await, 101);
}

pub(super) async fn a_read_method_can_fail_a_write_operation(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let version = case.version(&object).await;
    // The method alone changes nothing.
    let reply = case.pool.write(&object, WriteOp::new().exec("hello", "say", "Ada")).await.unwrap();
    assert_eq!(reply.version, version);
    // The engine discards the method's output. An error of the method fails the operation.
    let op = WriteOp::new().exec("hello", "say", "Ada").write_full("x");
    assert!(case.pool.write(&object, op).await.unwrap().version > version);
    assert_eq!(case.state(&object).await, Some(ObjectContent { data: "x".into(), ..ObjectContent::full() }));
    let op = WriteOp::new().exec("hello", "replay", "").write_full("y");
    assert_eq!(kind(case.pool.write(&object, op).await), ErrorKind::NotFound);
    assert_eq!(case.state(&object).await, Some(ObjectContent { data: "x".into(), ..ObjectContent::full() }));
}

pub(super) async fn read_methods_are_steps_of_a_read_operation(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let op = ReadOp::new().read(0, 2).exec("hello", "say", "Ada").get_xattr("X").exec("hello", "say", "Bob");
    let reply = case.pool.read(&object, op).await.unwrap();
    let expected = [
        ReadOutput::Data("aa".into()),
        ReadOutput::Exec("Hello, Ada!".into()),
        ReadOutput::Xattr("1".into()),
        ReadOutput::Exec("Hello, Bob!".into()),
    ];
    assert_eq!(reply.outputs, expected);
    let op = ReadOp::new().exec("hello", "say", "").exec("hello", "replay", "");
    assert_eq!(kind(case.pool.read(&object, op).await), ErrorKind::NotFound);
    let op = ReadOp::new().exec("hello", "say", "").cmp_xattr("X", Compare::Eq, "2");
    assert_eq!(kind(case.pool.read(&object, op).await), ErrorKind::Conflict);
}

pub(super) async fn a_write_method_in_a_read_operation_is_refused(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let version = case.version(&object).await;
    let missing = case.object("missing");
    for method in ["old_and_new", "nothing", "read_undeclared", "panic"] {
        let op = ReadOp::new().stat().exec("hello", method, "");
        assert_eq!(kind(case.pool.read(&object, op).await), ErrorKind::InvalidArgument, "{method}");
    }
    let op = ReadOp::new().exec("hello", "record", "");
    assert_eq!(kind(case.pool.read(&missing, op).await), ErrorKind::InvalidArgument);
    assert_eq!(case.state(&missing).await, None);
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
    assert_eq!(case.version(&object).await, version);
}

/// The engine looks up the class and method before the object.
pub(super) async fn unknown_classes_and_methods_are_unsupported(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let missing = case.object("missing");
    for (class, method) in [
        ("no_such_class", "say"),
        ("hello", "no_such_method"),
        ("hello", "SAY"),
        ("hello", "say "),
        ("Hello", "say"),
    ] {
        for object in [&object, &missing] {
            assert_eq!(
                kind(case.exec(object, class, method, "").await),
                ErrorKind::Unsupported,
                "{class}.{method}"
            );
            let op = WriteOp::new().exec(class, method, "").write_full("x");
            assert_eq!(kind(case.pool.write(object, op).await), ErrorKind::Unsupported, "{class}.{method}");
            let op = ReadOp::new().stat().exec(class, method, "");
            assert_eq!(kind(case.pool.read(object, op).await), ErrorKind::Unsupported, "{class}.{method}");
        }
        let op = WriteOp::new().cmp_xattr("X", Compare::Eq, "2").exec(class, method, "");
        assert_eq!(kind(case.pool.write(&object, op).await), ErrorKind::Unsupported, "{class}.{method}");
    }
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
    assert_eq!(case.state(&missing).await, None);
}

pub(super) async fn input_arrives_as_it_was_sent(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write(&object, WriteOp::new().create(true)).await.unwrap();
    let input: Vec<u8> = (0..=255).cycle().take(1_000_000).collect();
    let op = WriteOp::new().exec("hello", "old_and_new", input.clone());
    case.pool.write(&object, op).await.unwrap();
    assert!(case.state(&object).await.unwrap().data == input, "the input differs");
    for input in ["", "é", "a\nb", "\"quoted\"", "\\"] {
        let expected = if input.is_empty() { "Hello, world!".to_owned() } else { format!("Hello, {input}!") };
        assert_eq!(case.exec(&object, "hello", "say", input).await.unwrap(), Bytes::from(expected));
    }
}
