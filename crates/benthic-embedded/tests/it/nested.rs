//! Methods that call methods.

use benthic_core::{
    Class, ClassRegistry, ErrorKind, Method, MethodContext, MethodFlags, MethodResult, ObjectId, ReadOp,
    ReadOutput, Result, Store, WriteOp, limits,
};
use benthic_embedded::{MemStore, Options};
use futures::executor::block_on;

struct Nest;

impl Class for Nest {
    fn name(&self) -> &'static str {
        "nest"
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "calls its own methods"
    }

    fn methods(&self) -> &'static [Method] {
        METHODS
    }
}

const fn method(
    name: &'static str,
    flags: MethodFlags,
    run: fn(&mut MethodContext<'_>, &[u8]) -> Result<Vec<u8>>,
) -> Method {
    Method {
        name,
        flags,
        run,
        result: MethodResult::Nothing,
        summary: "",
        input: "",
        output: "",
        examples: &[],
    }
}

const METHODS: &[Method] = &[
    // Calls itself as often as its input says, and returns the depth that it reached.
    method("down", MethodFlags::READ, |context, input| match input {
        [] => Ok(Vec::new()),
        [_, rest @ ..] => {
            let mut depth = context.call(&METHODS[0], rest)?.to_vec();
            depth.push(b'.');
            Ok(depth)
        }
    }),
    method("write_from_read", MethodFlags::READ, |context, _| {
        let _ = context.call(&METHODS[2], b"");
        Ok(Vec::new())
    }),
    method("write", MethodFlags::WRITE, |context, input| {
        context.append(input.to_vec())?;
        Ok(b"written".to_vec())
    }),
    method("write_twice", MethodFlags::READ_WRITE, |context, _| {
        assert_eq!(context.read(0, 10)?, "data");
        assert_eq!(context.call(&METHODS[2], b" and")?, "written");
        assert_eq!(context.call(&METHODS[2], b" more")?, "written");
        // The flags are those of this method again, and it has written.
        let error = context.read(0, 10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ClassFailed);
        assert!(error.to_string().contains("read first"), "{error}");
        Ok(Vec::new())
    }),
    method("ignore_a_failed_write", MethodFlags::READ_WRITE, |context, _| {
        let _ = context.call(&METHODS[5], b"");
        Ok(Vec::new())
    }),
    method("fail_after_writing", MethodFlags::WRITE, |context, _| {
        context.append("half")?;
        Err(benthic_core::Error::new(ErrorKind::Conflict, "half is written"))
    }),
    method("panic", MethodFlags::READ, |_, _| panic!("on purpose")),
    method("survive_a_panic", MethodFlags::READ, |context, _| {
        let error = context.call(&METHODS[6], b"").unwrap_err();
        Ok(error.message().as_bytes().to_vec())
    }),
];

#[test]
fn a_method_calls_methods_within_its_own_flags() {
    let store = MemStore::new(Options::default().with_classes(ClassRegistry::new().with(Nest)));
    block_on(async {
        store.create_pool("p").await.unwrap();
        let pool = store.open_pool("p").await.unwrap();
        let object = ObjectId::new("o").unwrap();
        pool.write_full(&object, "data").await.unwrap();
        let read = async |method: &str, input: &[u8]| {
            let op = ReadOp::new().exec("nest", method, input.to_vec());
            pool.read(&object, op).await.map(|reply| reply.outputs)
        };
        let write =
            async |method: &str| pool.write(&object, WriteOp::new().exec("nest", method, Vec::new())).await;
        let data = async || pool.read(&object, ReadOp::new().read(0, 100)).await.unwrap().outputs;

        let deepest = vec![0; limits::NESTED_CALLS_MAX as usize];
        assert_eq!(read("down", &deepest).await.unwrap(), [ReadOutput::Exec("....".into())]);
        let error = read("down", &[0; limits::NESTED_CALLS_MAX as usize + 1]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ClassFailed);
        assert!(error.to_string().contains("too deeply"), "{error}");
        let error = read("write_from_read", b"").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ClassFailed);
        assert!(error.to_string().contains("flags do not declare"), "{error}");
        let text = "the method panicked: on purpose";
        assert_eq!(read("survive_a_panic", b"").await.unwrap(), [ReadOutput::Exec(text.into())]);

        let error = write("ignore_a_failed_write").await.unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Conflict, "half is written"));
        assert_eq!(data().await, [ReadOutput::Data("data".into())]);
        write("write_twice").await.unwrap();
        assert_eq!(data().await, [ReadOutput::Data("data and more".into())]);
    });
}
