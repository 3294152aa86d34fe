use super::Fetch;
use crate::{ErrorKind, Guard, ReadOutput, ReadReply, ReadStep, Stat};

const STAT: Stat = Stat { size_bytes: 3, modified_unix_ns: 4 };

fn reply(outputs: impl Into<Vec<ReadOutput>>) -> ReadReply {
    ReadReply { version: 7, outputs: outputs.into() }
}

#[test]
fn combined_fetches_are_one_operation_with_ordered_outputs() {
    let ranges = Fetch::all([0, 1].map(|offset_bytes| Fetch::read(offset_bytes, 1)));
    let (op, outputs) = Fetch::stat().assert_version(5).and(ranges).and(Fetch::get_xattr("a")).into_parts();
    let read = |offset_bytes| ReadStep::Read { offset_bytes, len_bytes: 1 };
    assert_eq!(op.guards, [Guard::Version(5)]);
    assert_eq!(op.steps, [ReadStep::Stat, read(0), read(1), ReadStep::GetXattr { name: "a".into() }]);
    let [x, y, z] = ["x", "y", "z"].map(bytes::Bytes::from);
    let (data, xattr) = ([x.clone(), y.clone()].map(ReadOutput::Data), ReadOutput::Xattr(z.clone()));
    let [first, second] = data;
    let reply = reply([ReadOutput::Stat(STAT), first, second, xattr]);
    assert_eq!(outputs.of(reply).unwrap(), (((STAT, vec![x, y]), z), 7));
}

#[test]
fn outputs_that_do_not_match_the_steps_are_internal_errors() {
    let xattr = || ReadOutput::Xattr("x".into());
    for outputs in [vec![], vec![xattr()], vec![ReadOutput::Stat(STAT), xattr()]] {
        let refused = Fetch::stat().into_parts().1.of(reply(outputs)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Internal);
    }
    for (data, fits) in [("ab", false), ("abc", true), ("abcd", false)] {
        let (op, outputs) = Fetch::read_exact(7, 0, 3).into_parts();
        assert_eq!(op.guards, [Guard::Version(7)]);
        assert_eq!(outputs.of(reply([ReadOutput::Data(data.into())])).is_ok(), fits, "{data}");
    }
}
