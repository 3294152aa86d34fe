//! The rules of an administrator: which modules run in an OSD, within which limits, and how much
//! fuel they and their callers may use.
//!
//! The rules are a JSON file beside the library that the OSD loads. A change takes effect within
//! [`RECHECK_MS`]. Without the file, every module runs. With a file that is not valid, none does.
//!
//! ```json
//! {
//!   "keys": [{ "name": "alice", "public_key": "MCowBQYDK2VwAyEA…",
//!              "allow": { "classes": ["wordcount"], "write": true, "fuel": 1000000000,
//!                         "memory_bytes": 16777216, "fuel_per_s": 2000000000 } }],
//!   "unsigned": { "fuel": 100000000 },
//!   "client_fuel_per_s": 2000000000
//! }
//! ```
//!
//! All fields of `allow` and `unsigned` are optional: all classes, no writing, the limits of
//! [`Limits::MAX`], no quota. Without `unsigned`, only modules that one of the keys signed run.

use crate::{Limits, Signatures};
use benthic_core::{Error, ErrorKind, Result};
use ed25519_compact::PublicKey;
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind as IoErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file's name, beside the library for OSDs.
pub const FILE_NAME: &str = "wasm_1.rules.json";

/// Time between two looks at the file.
pub const RECHECK_MS: u64 = 1_000;
const FILE_BYTES_MAX: u64 = 1024 * 1024;
const KEYS_MAX: usize = 64;
/// Limit of the clients whose use of fuel is remembered.
const CLIENTS_MAX: usize = 4_096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesJson {
    #[serde(default)]
    keys: Vec<KeyJson>,
    unsigned: Option<AllowJson>,
    client_fuel_per_s: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyJson {
    name: String,
    public_key: String,
    #[serde(default)]
    allow: AllowJson,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AllowJson {
    classes: Option<Vec<String>>,
    #[serde(default)]
    write: bool,
    fuel: Option<u64>,
    memory_bytes: Option<u64>,
    fuel_per_s: Option<u64>,
}

/// The rights of a module.
#[derive(Debug)]
pub struct Rights {
    /// `None` for all classes.
    classes: Option<Vec<String>>,
    writes: bool,
    pub limits: Limits,
    quota: Option<Quota>,
}

impl Rights {
    fn all() -> Rights {
        Rights { classes: None, writes: true, limits: Limits::MAX, quota: None }
    }

    fn new(json: AllowJson) -> Rights {
        let limits = Limits {
            fuel: json.fuel.unwrap_or(u64::MAX),
            memory_bytes: json.memory_bytes.unwrap_or(u64::MAX),
        };
        Rights {
            classes: json.classes,
            writes: json.write,
            limits: limits.clamped(),
            quota: json.fuel_per_s.map(Quota::new),
        }
    }

    /// Checks that methods may write.
    ///
    /// # Errors
    /// `PermissionDenied`.
    pub fn check_writes(&self) -> Result<()> {
        if self.writes {
            return Ok(());
        }
        Err(denied(
            "the rules let this signer's modules read only; `\"write\": true` in the rules allows more",
        ))
    }

    /// Checks that the module may have this name.
    ///
    /// # Errors
    /// `PermissionDenied`.
    pub fn check_class(&self, class: &str) -> Result<()> {
        match &self.classes {
            Some(classes) if !classes.iter().any(|allowed| allowed == class) => {
                Err(denied("the rules do not allow a class of this name with this signature, or with none")
                    .with("class", class))
            }
            _ => Ok(()),
        }
    }
}

/// The rules that hold at a time.
pub struct Rules {
    /// Differs between any two rules of a process.
    pub generation: u64,
    keys: Vec<(PublicKey, Arc<Rights>)>,
    /// The rights of modules that no key signed.
    unsigned: Option<Arc<Rights>>,
    client_fuel_per_s: Option<u64>,
    clients: Mutex<HashMap<u64, Arc<Quota>>>,
    /// Why no module runs.
    invalid: Option<String>,
}

impl Rules {
    /// The rules without a file.
    fn open() -> Rules {
        Rules {
            generation: 0,
            keys: Vec::new(),
            unsigned: Some(Arc::new(Rights::all())),
            client_fuel_per_s: None,
            clients: Mutex::default(),
            invalid: None,
        }
    }

    /// Parses rules.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn parse(json: &[u8]) -> Result<Rules> {
        let invalid = |message: &str| Error::new(ErrorKind::InvalidArgument, message);
        let rules: RulesJson = serde_json::from_slice(json)
            .map_err(|error| invalid("the rules are not valid").with_source(error))?;
        if rules.keys.len() > KEYS_MAX {
            return Err(invalid("the rules have too many keys").with("keys_max", KEYS_MAX));
        }
        let mut keys = Vec::new();
        for key in rules.keys {
            let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", key.public_key);
            let public = PublicKey::from_pem(&pem).map_err(|_| {
                let message = "a public key is not valid; it is the line that `openssl pkey -pubout` prints between the markers";
                invalid(message).with("name", &key.name)
            })?;
            keys.push((public, Arc::new(Rights::new(key.allow))));
        }
        let unsigned = rules.unsigned.map(|allow| Arc::new(Rights::new(allow)));
        Ok(Rules { keys, unsigned, client_fuel_per_s: rules.client_fuel_per_s, ..Rules::open() })
    }

    /// The rights of a module with these signatures.
    ///
    /// # Errors
    /// `PermissionDenied` if it may not run.
    pub fn rights(&self, signatures: &Signatures) -> Result<Arc<Rights>> {
        if let Some(why) = &self.invalid {
            return Err(denied(
                "the rules for modules are not valid here, so none runs; ask the administrator",
            )
            .with("reason", why));
        }
        let by_key = self.keys.iter().find(|(key, _)| signatures.are_by(key)).map(|(_, rights)| rights);
        match by_key.or(self.unsigned.as_ref()) {
            Some(rights) => Ok(Arc::clone(rights)),
            None if signatures.is_empty() => {
                Err(denied("the rules demand a signature; `benthic class deploy --key FILE` signs a module"))
            }
            None => Err(denied(
                "no key of the rules signed this module; ask the administrator to add your public key",
            )),
        }
    }

    /// The quotas of a call: of the module's signer, and of the client.
    ///
    /// # Errors
    /// `Busy` if one is used up.
    pub fn quotas<'a>(&self, rights: &'a Rights, client: Option<u64>, now_ms: u64) -> Result<Quotas<'a>> {
        let client = match (self.client_fuel_per_s, client) {
            (Some(fuel_per_s), Some(client)) => Some(self.client_quota(client, fuel_per_s, now_ms)?),
            _ => None,
        };
        let quotas = Quotas { signer: rights.quota.as_ref(), client };
        if let Some(quota) = &quotas.client {
            quota.check("this client", now_ms)?;
        }
        if let Some(quota) = quotas.signer {
            quota.check("all classes of this signer", now_ms)?;
        }
        Ok(quotas)
    }

    fn client_quota(&self, client: u64, fuel_per_s: u64, now_ms: u64) -> Result<Arc<Quota>> {
        let mut clients = lock(&self.clients);
        if clients.len() >= CLIENTS_MAX && !clients.contains_key(&client) {
            // A client that used nothing lately starts like a new one.
            clients.retain(|_, quota| Arc::strong_count(quota) > 1 || !quota.is_full(now_ms));
            if clients.len() >= CLIENTS_MAX {
                return Err(Error::new(ErrorKind::Busy, "too many clients run modules here; retry later"));
            }
        }
        Ok(Arc::clone(clients.entry(client).or_insert_with(|| Arc::new(Quota::new(fuel_per_s)))))
    }
}

/// The quotas from which a call takes its fuel.
pub struct Quotas<'a> {
    signer: Option<&'a Quota>,
    client: Option<Arc<Quota>>,
}

impl Quotas<'_> {
    pub fn spend(&self, fuel: u64, now_ms: u64) {
        for quota in self.signer.into_iter().chain(self.client.as_deref()) {
            quota.spend(fuel, now_ms);
        }
    }
}

/// A token bucket that may go into debt: nobody knows the fuel of a call before it ends. It holds
/// the fuel of one second at most.
#[derive(Debug)]
struct Quota {
    fuel_per_s: u64,
    /// The fuel that is left, and the time at which that was so; `None` at the beginning.
    left: Mutex<Option<(i128, u64)>>,
}

impl Quota {
    fn new(fuel_per_s: u64) -> Quota {
        Quota { fuel_per_s, left: Mutex::new(None) }
    }

    fn left(&self, state: Option<(i128, u64)>, now_ms: u64) -> i128 {
        let full = i128::from(self.fuel_per_s);
        let Some((left, at_ms)) = state else { return full };
        full.min(left + full * i128::from(now_ms.saturating_sub(at_ms)) / 1_000)
    }

    fn is_full(&self, now_ms: u64) -> bool {
        self.left(*lock(&self.left), now_ms) == i128::from(self.fuel_per_s)
    }

    fn check(&self, whose: &str, now_ms: u64) -> Result<()> {
        if self.left(*lock(&self.left), now_ms) > 0 {
            return Ok(());
        }
        let message = format!("the fuel per second of {whose} is used up; retry later");
        Err(Error::new(ErrorKind::Busy, message).with("fuel_per_s", self.fuel_per_s))
    }

    fn spend(&self, fuel: u64, now_ms: u64) {
        let mut state = lock(&self.left);
        *state = Some((self.left(*state, now_ms) - i128::from(fuel), now_ms));
    }
}

/// The file with the rules.
pub struct RulesFile {
    /// `None` in a process without such a file.
    path: Option<PathBuf>,
    state: Mutex<RulesState>,
}

struct RulesState {
    checked_at_ms: Option<u64>,
    /// Time of the last change (ns), length and inode of the file; `None` if there is none.
    stamp: Option<(i64, i64, u64, u64)>,
    rules: Arc<Rules>,
}

impl RulesFile {
    pub fn new(path: Option<PathBuf>) -> RulesFile {
        let state = RulesState { checked_at_ms: None, stamp: None, rules: Arc::new(Rules::open()) };
        RulesFile { path, state: Mutex::new(state) }
    }

    /// The rules now.
    pub fn current(&self, now_ms: u64) -> Arc<Rules> {
        let mut state = lock(&self.state);
        if let Some(path) = &self.path
            && state.checked_at_ms.is_none_or(|at_ms| now_ms.saturating_sub(at_ms) >= RECHECK_MS)
        {
            state.checked_at_ms = Some(now_ms);
            update(path, &mut state);
        }
        Arc::clone(&state.rules)
    }
}

fn update(path: &Path, state: &mut RulesState) {
    let stamp = match fs::metadata(path) {
        Ok(file) => Some((file.mtime(), file.mtime_nsec(), file.len(), file.ino())),
        Err(error) if error.kind() == IoErrorKind::NotFound => None,
        // Reading the file fails, too, and says why.
        Err(_) => Some((0, 0, 0, 0)),
    };
    if stamp == state.stamp {
        return;
    }
    let rules = match stamp {
        None => Ok(Rules::open()),
        Some(_) => read(path).and_then(|json| Rules::parse(&json)),
    };
    let rules = rules.unwrap_or_else(|error| Rules {
        unsigned: None,
        invalid: Some(error.to_string()),
        ..Rules::open()
    });
    state.stamp = stamp;
    state.rules = Arc::new(Rules { generation: state.rules.generation + 1, ..rules });
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut json = Vec::new();
    let file = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut json));
    match file {
        Ok(_) if json.len() as u64 <= FILE_BYTES_MAX => Ok(json),
        Ok(_) => Err(Error::new(ErrorKind::InvalidArgument, "the file is too large")),
        Err(error) => {
            Err(Error::new(ErrorKind::InvalidArgument, "the file cannot be read").with_source(error))
        }
    }
}

fn denied(message: &str) -> Error {
    Error::new(ErrorKind::PermissionDenied, message)
}

/// Nothing that panics runs under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
