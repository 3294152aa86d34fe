//! Builds operations from Python values: each step is a tuple of its name and its arguments.

use crate::errors::invalid;
use benthic_core::{ClassCall, Compare, Durability, Guard, ReadOp, ReadOutput, ReadStep, WriteOp, WriteStep};
use bytes::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::{Bound, PyAny, PyAnyMethods, PyResult, Python};
use pyo3::types::{PyBytes, PyDict, PyDictMethods, PyMemoryView, PyTuple, PyTupleMethods};
use pyo3::{FromPyObject, IntoPyObject};

/// Copies the bytes of any buffer. The copy is needed because Python may change the buffer while
/// the operation runs.
pub fn bytes(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let bytes = PyMemoryView::from(value)?.call_method1("cast", ("B",))?;
    PyBuffer::<u8>::get(&bytes)?.to_vec(value.py())
}

/// A step or guard that is being parsed.
struct Step<'a, 'py> {
    name: String,
    tuple: &'a Bound<'py, PyTuple>,
}

impl<'a, 'py> Step<'a, 'py> {
    fn new(tuple: &'a Bound<'py, PyTuple>) -> PyResult<Step<'a, 'py>> {
        Ok(Step { name: tuple.get_item(0)?.extract()?, tuple })
    }

    fn value<T>(&self, place: usize) -> PyResult<T>
    where
        T: for<'b> FromPyObject<'b, 'py, Error: Into<pyo3::PyErr>>,
    {
        self.tuple.get_item(place)?.extract().map_err(Into::into)
    }

    fn bytes(&self, place: usize) -> PyResult<Bytes> {
        bytes(&self.tuple.get_item(place)?).map(Bytes::from)
    }

    fn keys(&self, place: usize) -> PyResult<Vec<Bytes>> {
        self.tuple.get_item(place)?.try_iter()?.map(|key| bytes(&key?).map(Bytes::from)).collect()
    }

    fn call(&self) -> PyResult<ClassCall> {
        Ok(ClassCall { class: self.value(1)?, method: self.value(2)?, input: self.bytes(3)? })
    }

    fn unknown<T>(&self) -> PyResult<T> {
        Err(invalid(format!("an operation has no step {:?}", self.name)))
    }
}

pub fn read_op(guards: &[Bound<'_, PyTuple>], steps: &[Bound<'_, PyTuple>]) -> PyResult<ReadOp> {
    let steps = steps.iter().map(read_step).collect::<PyResult<_>>()?;
    Ok(ReadOp { guards: guards.iter().map(guard).collect::<PyResult<_>>()?, steps })
}

pub fn write_op(
    guards: &[Bound<'_, PyTuple>],
    steps: &[Bound<'_, PyTuple>],
    durable: bool,
) -> PyResult<WriteOp> {
    let steps = steps.iter().map(write_step).collect::<PyResult<_>>()?;
    let durability = if durable { Durability::Durable } else { Durability::Buffered };
    Ok(WriteOp { guards: guards.iter().map(guard).collect::<PyResult<_>>()?, steps, durability })
}

fn guard(tuple: &Bound<'_, PyTuple>) -> PyResult<Guard> {
    let step = Step::new(tuple)?;
    Ok(match step.name.as_str() {
        "exists" => Guard::Exists,
        "version" => Guard::Version(step.value(1)?),
        "xattr" => Guard::Xattr {
            name: step.value(1)?,
            compare: compare(&step.value::<String>(2)?)?,
            value: step.bytes(3)?,
        },
        "omap" => Guard::Omap { key: step.bytes(1)?, value: step.bytes(2)? },
        _ => return step.unknown(),
    })
}

fn compare(operator: &str) -> PyResult<Compare> {
    Ok(match operator {
        "==" => Compare::Eq,
        "!=" => Compare::Ne,
        ">" => Compare::Gt,
        ">=" => Compare::Ge,
        "<" => Compare::Lt,
        "<=" => Compare::Le,
        _ => return Err(invalid("a comparison is ==, !=, <, <=, > or >=")),
    })
}

fn read_step(tuple: &Bound<'_, PyTuple>) -> PyResult<ReadStep> {
    let step = Step::new(tuple)?;
    Ok(match step.name.as_str() {
        "read" => ReadStep::Read { offset_bytes: step.value(1)?, len_bytes: step.value(2)? },
        "stat" => ReadStep::Stat,
        "get_xattr" => ReadStep::GetXattr { name: step.value(1)? },
        "xattrs" => ReadStep::ListXattrs,
        "omap_get" => ReadStep::OmapGet { keys: step.keys(1)? },
        "omap_range" => {
            let after = step.tuple.get_item(1)?;
            let after = if after.is_none() { None } else { Some(bytes(&after)?.into()) };
            ReadStep::OmapRange { after, prefix: step.bytes(2)?, entries_max: step.value(3)? }
        }
        "exec" => ReadStep::Exec(step.call()?),
        _ => return step.unknown(),
    })
}

fn write_step(tuple: &Bound<'_, PyTuple>) -> PyResult<WriteStep> {
    let step = Step::new(tuple)?;
    Ok(match step.name.as_str() {
        "create" => WriteStep::Create { exclusive: step.value(1)? },
        "write" => WriteStep::Write { offset_bytes: step.value(1)?, data: step.bytes(2)? },
        "write_full" => WriteStep::WriteFull { data: step.bytes(1)? },
        "append" => WriteStep::Append { data: step.bytes(1)? },
        "truncate" => WriteStep::Truncate { size_bytes: step.value(1)? },
        "zero" => WriteStep::Zero { offset_bytes: step.value(1)?, len_bytes: step.value(2)? },
        "remove" => WriteStep::Remove,
        "set_xattr" => WriteStep::SetXattr { name: step.value(1)?, value: step.bytes(2)? },
        "rm_xattr" => WriteStep::RemoveXattr { name: step.value(1)? },
        "omap_set" => {
            let entries = step.tuple.get_item(1)?.cast_into::<PyDict>()?;
            let entry = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
                Ok((bytes(&key)?.into(), bytes(&value)?.into()))
            };
            WriteStep::OmapSet { entries: entries.iter().map(entry).collect::<PyResult<_>>()? }
        }
        "omap_rm" => WriteStep::OmapRemove { keys: step.keys(1)? },
        "omap_clear" => WriteStep::OmapClear,
        "exec" => WriteStep::Exec(step.call()?),
        _ => return step.unknown(),
    })
}

/// Converts the reply of a step to bytes, a dictionary, `(size_bytes, modified_unix_ns)`, or
/// `([(key, value)], more)`.
pub fn output<'py>(py: Python<'py>, output: &ReadOutput) -> PyResult<Bound<'py, PyAny>> {
    Ok(match output {
        ReadOutput::Data(data) | ReadOutput::Xattr(data) | ReadOutput::Exec(data) => {
            PyBytes::new(py, data).into_any()
        }
        ReadOutput::Stat(stat) => (stat.size_bytes, stat.modified_unix_ns).into_pyobject(py)?.into_any(),
        ReadOutput::Xattrs(xattrs) => {
            let values = PyDict::new(py);
            for (name, value) in xattrs {
                values.set_item(name, PyBytes::new(py, value))?;
            }
            values.into_any()
        }
        ReadOutput::Omap(page) => {
            let entry = |(key, value): &(Bytes, Bytes)| (PyBytes::new(py, key), PyBytes::new(py, value));
            let entries: Vec<_> = page.entries.iter().map(entry).collect();
            (entries, page.more).into_pyobject(py)?.into_any()
        }
    })
}
