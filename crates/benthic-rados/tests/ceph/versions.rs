//! Classes whose version in the OSDs differs from the client's.

use crate::support::{OwnPool, block_on, conf, id, kind, options};
use benthic_core::{
    Class, ClassCall, ErrorKind, Method, MethodContext, MethodFlags, MethodResult, Result, Store, WriteOp,
};
use benthic_rados::{Options, RadosStore};

/// A class that a later version of the library could contain.
struct Later;

impl Class for Later {
    fn name(&self) -> &'static str {
        "later"
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "not in the OSDs yet"
    }

    fn methods(&self) -> &'static [Method] {
        &[
            Method {
                name: "look",
                flags: MethodFlags::READ,
                run: nothing,
                result: MethodResult::Output,
                summary: "does nothing",
                input: "nothing",
                output: "nothing",
                examples: &[],
            },
            Method {
                name: "change",
                flags: MethodFlags::WRITE,
                run: nothing,
                result: MethodResult::Nothing,
                summary: "does nothing",
                input: "nothing",
                output: "nothing",
                examples: &[],
            },
        ]
    }
}

fn nothing(_: &mut MethodContext<'_>, _: &[u8]) -> Result<Vec<u8>> {
    Ok(Vec::new())
}

#[test]
fn a_class_with_another_version_in_the_osds_is_unsupported() {
    let own = OwnPool::new("versions");
    block_on(own.pool.write_full(&id("o"), "data")).unwrap();
    let options = Options { classes: benthic_classes::registry().with(Later), ..options() };
    let store = RadosStore::connect(Some(conf()), None, options).unwrap();
    let pool = block_on(store.open_pool(own.pool.name())).unwrap();
    let call = |method: &str| ClassCall { class: "later".into(), method: method.into(), input: "".into() };
    for object in ["o", "none"] {
        for error in [
            block_on(pool.exec(&id(object), call("look"))).err().unwrap(),
            block_on(pool.exec(&id(object), call("change"))).err().unwrap(),
            block_on(pool.write(&id(object), WriteOp::new().exec("later", "change", ""))).err().unwrap(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            let text = error.to_string();
            assert!(text.contains("another build") && text.contains("benthic class install"), "{text}");
            for (key, value) in [("class", "later"), ("pool", own.pool.name()), ("object", object)] {
                assert!(error.context().any(|pair| pair == (key, value)), "{key}: {text}");
            }
        }
    }
    assert_eq!(kind(block_on(pool.stat(&id("none")))), Some(ErrorKind::NotFound));
}
