//! One case: runs the same operations on an engine and on the oracle.

use super::answer::{answer, without_times};
use super::generate::{Action, GuardPlan, GuardValue, OBJECTS};
use super::oracle::{self, Object};
use super::{Subject, brief, classes};
use benthic_core::{
    ClassCall, Guard, ListRequest, Namespaces, ObjectId, Pool, ReadOp, ReadOutput, WriteOp, WriteReply,
};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;

/// An upper bound for the pages of any listing in a case. An engine that exceeds it never ends its
/// listing.
const PAGES_MAX: usize = 100_000;

/// An object of the case: its state in the oracle, and the version that the engine last reported.
struct Slot {
    id: ObjectId,
    object: Option<Object>,
    /// The current version, or the last one if the object was removed.
    version: u64,
}

struct Case<'a, S> {
    subject: &'a mut S,
    pool: Arc<dyn Pool>,
    namespaces: [String; 2],
    slots: Vec<Slot>,
}

/// Runs `actions` and describes the first difference between engine and oracle.
pub(crate) fn run<S: Subject>(subject: &mut S, actions: &[Action]) -> Result<(), String> {
    let namespaces = subject.namespaces();
    let slot = |(namespace, name): (usize, &str)| {
        let id = ObjectId::in_namespace(&namespaces[namespace], name)
            .map_err(|error| format!("the subject's namespace cannot be used: {error}"))?;
        Ok(Slot { id, object: None, version: 0 })
    };
    let slots = OBJECTS.into_iter().map(slot).collect::<Result<_, String>>()?;
    let pool = subject.pool();
    let mut case = Case { subject, pool, namespaces, slots };
    for (index, action) in actions.iter().enumerate() {
        case.act(action).map_err(|difference| format!("operation {index}: {difference}"))?;
    }
    case.compare_everything().map_err(|difference| format!("after the last operation: {difference}"))
}

impl<S: Subject> Case<'_, S> {
    fn act(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Write { object, guards, steps, durability } => {
                let guards = self.guards(*object, guards);
                self.write(*object, WriteOp { guards, steps: steps.clone(), durability: *durability })
            }
            Action::Read { object, guards, steps } => {
                let guards = self.guards(*object, guards);
                self.read(*object, ReadOp { guards, steps: steps.clone() })
            }
            Action::Exec { object, call } => self.exec(*object, call.clone()),
            Action::List { namespace, prefix, objects_max } => self.list(*namespace, prefix, *objects_max),
            Action::Flush => self.subject.flush().map_err(|error| format!("flush failed: {error:?}")),
            Action::Reopen => {
                self.subject.reopen().map_err(|error| format!("the store did not open again: {error:?}"))?;
                self.pool = self.subject.pool();
                Ok(())
            }
        }
    }

    fn guards(&self, object: usize, plans: &[GuardPlan]) -> Vec<Guard> {
        let slot = &self.slots[object];
        let stored = |value: &GuardValue, stored: Option<&Bytes>| match value {
            GuardValue::Stored => stored.cloned().unwrap_or_default(),
            GuardValue::Other(value) => value.clone(),
        };
        let resolve = |plan: &GuardPlan| match plan {
            GuardPlan::Exists => Guard::Exists,
            GuardPlan::Version(more) => Guard::Version(slot.version.max(1) + more),
            GuardPlan::Xattr { name, compare, value } => {
                let value = stored(value, slot.object.as_ref().and_then(|object| object.xattrs.get(*name)));
                Guard::Xattr { name: (*name).to_owned(), compare: *compare, value }
            }
            GuardPlan::Omap { key, value } => {
                let value = stored(value, slot.object.as_ref().and_then(|object| object.omap.get(*key)));
                Guard::Omap { key: Bytes::from_static(key), value }
            }
        };
        plans.iter().map(resolve).collect()
    }

    fn write(&mut self, object: usize, op: WriteOp) -> Result<(), String> {
        let slot = &mut self.slots[object];
        let expected = oracle::write(slot.object.as_ref(), slot.version, &op);
        let got = answer(self.pool.write(&slot.id, op));
        match (expected, got) {
            (Ok(written), Ok(WriteReply { version })) => {
                if slot.object.is_some() || written.object.is_some() {
                    check_version(slot.version, version, written.touched)?;
                    slot.version = version;
                }
                slot.object = written.object;
            }
            (Err(kind), Err(error)) if error.kind() == kind => {}
            (expected, got) => {
                let expected = expected.map(|_| "success");
                return Err(format!("write of {}: expected {expected:?}, got {got:?}", slot.id));
            }
        }
        self.check_stat(object)
    }

    fn exec(&mut self, object: usize, call: ClassCall) -> Result<(), String> {
        let slot = &mut self.slots[object];
        let mut staged = slot.object.clone();
        let expected = classes::call(&mut staged, &call);
        let got = answer(self.pool.exec(&slot.id, call));
        match (expected, got) {
            (Ok(called), Ok(output)) if called.output == output => {
                slot.object = staged;
                // The reply has no version, so the case takes the new version from the next read.
                if called.touched
                    && let Ok((_, version)) = answer(self.pool.stat(&slot.id))
                {
                    check_version(slot.version, version, true)?;
                    slot.version = version;
                }
            }
            (Err(kind), Err(error)) if error.kind() == kind => {}
            (expected, got) => {
                let expected = expected.map(|called| called.output);
                return Err(format!(
                    "exec on {}: expected {}, got {}",
                    slot.id,
                    brief(&expected),
                    brief(&got)
                ));
            }
        }
        self.check_stat(object)
    }

    fn check_stat(&self, object: usize) -> Result<(), String> {
        self.read(object, ReadOp::new().stat()).map_err(|difference| format!("after it, {difference}"))
    }

    fn read(&self, object: usize, op: ReadOp) -> Result<(), String> {
        let slot = &self.slots[object];
        let expected = oracle::read(slot.object.as_ref(), slot.version, &op);
        let got = answer(self.pool.read(&slot.id, op)).map(without_times);
        match (expected, got) {
            (Ok(outputs), Ok(reply)) => {
                let (expected, got) = ((slot.version, outputs.len()), (reply.version, reply.outputs.len()));
                if expected != got {
                    return Err(format!(
                        "read of {}: expected (version, outputs)={expected:?}, got {got:?}",
                        slot.id
                    ));
                }
                for (step, (expected, got)) in outputs.iter().zip(&reply.outputs).enumerate() {
                    if expected != got {
                        let difference = difference(expected, got);
                        return Err(format!("read of {}, step {step}: {difference}", slot.id));
                    }
                }
                Ok(())
            }
            (Err(kind), Err(error)) if error.kind() == kind => Ok(()),
            (expected, got) => {
                let expected = expected.map(|_| "success");
                let got = got.map(|_| "success");
                Err(format!("read of {}: expected {expected:?}, got {got:?}", slot.id))
            }
        }
    }

    fn list(&self, namespace: Option<usize>, prefix: &str, objects_max: usize) -> Result<(), String> {
        let namespaces = match namespace {
            Some(index) => Namespaces::One(self.namespaces[index].clone()),
            None => Namespaces::All,
        };
        let mut request = ListRequest { namespaces, prefix: prefix.to_owned(), after: None, objects_max };
        let mut found = BTreeSet::new();
        for _ in 0..PAGES_MAX {
            let page =
                answer(self.pool.list(request.clone())).map_err(|error| format!("list failed: {error:?}"))?;
            if page.objects.len() > objects_max {
                return Err(format!("a page of {objects_max} has objects={}", page.objects.len()));
            }
            // A shared pool may hold objects of other tests in other namespaces.
            let ours =
                page.objects.into_iter().filter(|id| self.namespaces.iter().any(|ns| ns == id.namespace()));
            for id in ours {
                if !found.insert(id.clone()) {
                    return Err(format!("list gives {id} twice"));
                }
            }
            let Some(next) = page.next else {
                let matches = |slot: &&Slot| {
                    slot.object.is_some()
                        && slot.id.name().starts_with(prefix)
                        && namespace.is_none_or(|index| slot.id.namespace() == self.namespaces[index])
                };
                let expected: BTreeSet<_> =
                    self.slots.iter().filter(matches).map(|slot| slot.id.clone()).collect();
                if found != expected {
                    return Err(format!("list of {request:?}: expected {expected:?}, got {found:?}"));
                }
                return Ok(());
            };
            request.after = Some(next);
        }
        Err(format!("list of {request:?} does not end"))
    }

    fn compare_everything(&self) -> Result<(), String> {
        for index in 0..self.slots.len() {
            let object = self.slots[index].object.as_ref();
            let len_bytes = object.map_or(0, |object| object.data.len() as u64);
            // Reads one byte more than the oracle has, to detect data after the end.
            self.read(index, ReadOp::new().read(0, len_bytes + 1).stat().list_xattrs())?;
            let mut after = None;
            let keys = object.map_or(0, |object| object.omap.len());
            for _ in 0..=keys / 1_000 {
                self.read(index, ReadOp::new().omap_range(after.clone(), "", 1_000))?;
                after = object.and_then(|object| {
                    let key_after = |key: &&Bytes| after.as_ref().is_none_or(|after| *key > after);
                    object.omap.keys().filter(key_after).nth(999).cloned()
                });
            }
        }
        self.list(None, "", 2)?;
        self.list(Some(0), "", 10)
    }
}

fn check_version(before: u64, after: u64, touched: bool) -> Result<(), String> {
    if after > before || (after == before && !touched) {
        return Ok(());
    }
    Err(format!("the version must grow: before={before} after={after}"))
}

fn difference(expected: &ReadOutput, got: &ReadOutput) -> String {
    let (ReadOutput::Data(expected), ReadOutput::Data(got)) = (expected, got) else {
        return format!("expected {}, got {}", brief(expected), brief(got));
    };
    let offset = expected.iter().zip(got).position(|(a, b)| a != b).unwrap_or(expected.len().min(got.len()));
    format!(
        "data differs at offset={offset}: expected byte={:?} of len_bytes={}, got byte={:?} of len_bytes={}",
        expected.get(offset),
        expected.len(),
        got.get(offset),
        got.len()
    )
}
