//! A call of a module's method, and the client's side of it.

use crate::{ModuleId, Wasm};
use benthic_core::codec::{Decoded, Decoder, Encode, Malformed};
use benthic_core::{ClassCall, Error, ErrorKind, ObjectId, Pool, Result};
use bytes::Bytes;

/// The version of the encoding of a [`Call`].
const FORMAT: u8 = 1;

/// The input of the methods of the class [`Wasm`](crate::Wasm).
///
/// Encoding: format (u8, 1), the module's SHA-256 (32 bytes), fuel (u64), memory in bytes (u64),
/// the method (text), its input (byte string), the module (byte string, empty if not attached).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub module: ModuleId,
    pub limits: crate::Limits,
    pub method: String,
    pub input: Bytes,
    /// The module itself, if the caller attached it.
    pub attached: Option<Bytes>,
}

impl Call {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        bytes.extend_from_slice(&self.module.0);
        bytes.put_u64(self.limits.fuel);
        bytes.put_u64(self.limits.memory_bytes);
        bytes.put_bytes(self.method.as_bytes());
        bytes.put_bytes(&self.input);
        bytes.put_bytes(self.attached.as_deref().unwrap_or_default());
        bytes
    }

    /// Decodes a call.
    ///
    /// # Errors
    /// `InvalidArgument`; `Unsupported` for a later format.
    pub fn decode(bytes: &Bytes) -> Result<Call> {
        if bytes.first().is_some_and(|format| *format != FORMAT) {
            let message = "this class is older than the client; install the library of the client's build";
            return Err(Error::unsupported(message));
        }
        Call::decode_fields(bytes).map_err(|Malformed| Error::invalid_argument("the call is malformed"))
    }

    fn decode_fields(bytes: &Bytes) -> Decoded<Call> {
        let mut decoder = Decoder::sharing(bytes);
        decoder.u8()?;
        let module = ModuleId(decoder.array()?);
        let limits = crate::Limits { fuel: decoder.u64()?, memory_bytes: decoder.u64()? };
        let (method, input, attached) = (decoder.string()?, decoder.bytes()?, decoder.bytes()?);
        decoder.end()?;
        Ok(Call {
            module,
            limits,
            method,
            input,
            attached: Some(attached).filter(|module| !module.is_empty()),
        })
    }
}

/// Calls a method of a module beside an object. If the engine does not have the module, the call is
/// repeated with the module attached.
///
/// # Errors
/// Those of the method; `LimitExceeded` if it needs more fuel or memory than the limits allow;
/// `ClassFailed` if it traps; `InvalidArgument` for a module that is not valid; `Unsupported` if
/// the engine lacks the class `wasm`.
pub async fn exec(
    pool: &dyn Pool,
    object: &ObjectId,
    mut call: Call,
    writes: bool,
    fetch: impl AsyncFnOnce() -> Result<Bytes>,
) -> Result<Bytes> {
    match pool.exec(object, class_call(&call, writes)).await {
        Err(error) if error.kind() == ErrorKind::Busy && call.attached.is_none() => {
            call.attached = Some(fetch().await?);
            pool.exec(object, class_call(&call, writes)).await
        }
        answered => answered,
    }
}

fn class_call(call: &Call, writes: bool) -> ClassCall {
    let method = if writes { "run_write" } else { "run_read" };
    ClassCall { class: Wasm::NAME.to_owned(), method: method.to_owned(), input: call.encode().into() }
}
