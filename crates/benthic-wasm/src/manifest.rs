//! A module's description of itself, as JSON in a custom section of the module. A build tool adds
//! the section, because not every language can.

use benthic_core::{ClassInfo, Error, MethodInfo, Result, limits};
use serde::{Deserialize, Serialize};

/// The name of the custom section.
pub const MANIFEST_SECTION: &str = "benthic";

/// Limit of the section's size.
const MANIFEST_BYTES_MAX: usize = 64 * 1024;
const METHODS_MAX: usize = 256;

/// The description of a class that is a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The name of the class: lower-case letters, digits and `_`, first a letter.
    pub class: String,
    pub version: u32,
    #[serde(default)]
    pub summary: String,
    pub methods: Vec<MethodManifest>,
}

/// The description of one method. The module exports a function of this name, without parameters,
/// that returns an `i32`: 0, or an errno of the error table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MethodManifest {
    #[serde(rename = "method")]
    pub name: String,
    #[serde(default)]
    pub reads: bool,
    #[serde(default)]
    pub writes: bool,
    /// The method merges a list of results into one: see `benthic map`. Records without it stay
    /// readable for builds that do not know the field.
    #[serde(default, skip_serializing_if = "is_false")]
    pub merges: bool,
    /// The names of other objects that the method needs: see [`MethodManifest::collect`]. Left out
    /// like `merges`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<String>,
    /// The attribute that holds the result of a method that writes.
    #[serde(default)]
    pub result_xattr: Option<String>,
    #[serde(default)]
    pub summary: String,
    #[serde(default)]
    pub input: String,
    #[serde(default)]
    pub output: String,
    #[serde(default)]
    pub examples: Vec<String>,
}

impl Manifest {
    /// Parses and checks a manifest.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn parse(json: &[u8]) -> Result<Manifest> {
        if json.len() > MANIFEST_BYTES_MAX {
            return Err(invalid("the manifest is too long").with("len_bytes_max", MANIFEST_BYTES_MAX));
        }
        let manifest: Manifest = serde_json::from_slice(json).map_err(|error| {
            let message = match error.is_data() {
                true => "the manifest lacks a field or has one that this build does not know; correct it, or, if a newer Benthic built the module, \
                     install that build's program here and its libcls_wasm_1.so in the OSDs",
                false => "the manifest is not valid",
            };
            invalid(message).with_source(error)
        })?;
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<()> {
        if !is_name(&self.class) {
            let message =
                "the class's name must consist of lower-case letters, digits and _, and begin with a letter";
            return Err(invalid(message).with("class", &self.class));
        }
        if self.methods.is_empty() || self.methods.len() > METHODS_MAX {
            let message = "a manifest describes at least one method, and not too many";
            return Err(invalid(message)
                .with("methods", self.methods.len())
                .with("methods_max", METHODS_MAX));
        }
        for (index, method) in self.methods.iter().enumerate() {
            let refused = |message: &str| Err(invalid(message).with("method", &method.name));
            if method.name.is_empty() || method.name.len() > limits::CLASS_NAME_BYTES_MAX {
                return refused("a method's name is empty or too long");
            }
            if !method.name.bytes().all(|byte| byte.is_ascii_graphic()) {
                return refused("a method's name must consist of visible ASCII characters");
            }
            if self.methods[..index].iter().any(|other| other.name == method.name) {
                return refused("the manifest describes a method twice");
            }
            if !method.reads && !method.writes {
                return refused("a method must read or write; set \"reads\" or \"writes\" in the manifest");
            }
            if method.merges && method.writes {
                return refused("a method that merges results returns one, so it cannot write");
            }
            if method.result_xattr.is_some() && !method.writes {
                return refused("only a method that writes has a result in an attribute");
            }
            method.check_objects().map_err(|error| error.with("method", &method.name))?;
        }
        Ok(())
    }

    /// Finds a method.
    ///
    /// # Errors
    /// `Unsupported` if the module has no such method.
    pub fn method(&self, name: &str) -> Result<&MethodManifest> {
        self.methods.iter().find(|method| method.name == name).ok_or_else(|| {
            Error::unsupported("the class has no such method").with("class", &self.class).with("method", name)
        })
    }

    /// The description in the form that all classes share.
    pub fn info(&self, build: &str) -> ClassInfo {
        let method = |method: &MethodManifest| MethodInfo {
            name: method.name.clone(),
            reads: method.reads,
            writes: method.writes,
            result_xattr: method.result_xattr.clone(),
            summary: method.summary.clone(),
            input: method.input.clone(),
            output: method.output.clone(),
            examples: method.examples.clone(),
        };
        ClassInfo {
            name: self.class.clone(),
            version: self.version,
            build: build.to_owned(),
            summary: self.summary.clone(),
            methods: self.methods.iter().map(method).collect(),
        }
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

pub(crate) fn is_name(name: &str) -> bool {
    name.len() <= limits::CLASS_NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

pub(crate) fn invalid(message: &str) -> Error {
    Error::invalid_argument(message)
}

/// Appends a manifest to a module, as a custom section.
pub fn with_manifest(wasm: &[u8], manifest_json: &[u8]) -> Vec<u8> {
    let mut module = wasm.to_vec();
    put_section(&mut module, MANIFEST_SECTION, manifest_json);
    module
}

/// Appends a custom section.
pub(crate) fn put_section(module: &mut Vec<u8>, name: &str, content: &[u8]) {
    let mut section = Vec::new();
    put_leb128(&mut section, name.len());
    section.extend_from_slice(name.as_bytes());
    section.extend_from_slice(content);
    // The id of a custom section.
    module.push(0);
    put_leb128(module, section.len());
    module.extend_from_slice(&section);
}

/// Appends a number in the encoding of WebAssembly: 7 bits a byte, the lowest first.
pub fn put_leb128(bytes: &mut Vec<u8>, mut number: usize) {
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        bytes.push(if number == 0 { low } else { low | 0x80 });
        if number == 0 {
            return;
        }
    }
}
