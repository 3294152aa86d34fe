//! Encryption of secrets: XChaCha20-Poly1305 under a key that is in a file outside the store. A
//! copy of the store alone reveals no secrets.

use benthic_core::Environment;
use benthic_core::{Action, Error, Result};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
/// Maximum size of a key file, with some room for blanks.
const FILE_BYTES_MAX: u64 = 256;
/// Permission bits of a file's group and of others.
const OTHERS_MODE: u32 = 0o077;

/// Encrypts and decrypts ("seals" and "opens") secrets.
#[derive(Clone)]
pub struct Sealer {
    cipher: XChaCha20Poly1305,
    key: [u8; KEY_BYTES],
    environment: Environment,
}

impl Sealer {
    /// Reads the key from this file. If the file does not exist and `create` is set, creates it,
    /// readable only by its owner.
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied` if others can read the file, `InvalidArgument` if it contains
    /// no key.
    pub fn open(path: &Path, create: bool, environment: Environment) -> Result<Sealer> {
        if create && !path.exists() {
            create_key(path, &environment).map_err(|error| error.with("path", path.display()))?;
        }
        let key = read(path).map_err(|error| error.with("path", path.display()))?;
        Ok(Sealer::with_key(key, environment))
    }

    /// Encrypts and decrypts with this key.
    pub fn with_key(key: [u8; KEY_BYTES], environment: Environment) -> Sealer {
        Sealer { cipher: XChaCha20Poly1305::new(&key.into()), key, environment }
    }

    /// A key for another purpose. All servers with the same sealing key derive the same one.
    pub fn derive_key(&self, purpose: &str) -> [u8; 32] {
        blake3::derive_key(purpose, &self.key)
    }

    /// The file of the key unless the user names another one: `benthic/s3-sealing.key` in the
    /// directory for configuration.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no home directory.
    pub fn default_path() -> Result<PathBuf> {
        let config = match std::env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty()) {
            Some(dir) => Some(PathBuf::from(dir)),
            None => std::env::home_dir().map(|home| home.join(".config")),
        };
        let message = "there is no home directory; name the sealing key file with --sealing-key";
        let config = config.ok_or_else(|| Error::invalid_argument(message))?;
        Ok(config.join("benthic/s3-sealing.key"))
    }

    /// Seals a secret under a name; it cannot be opened under another name. Returns the nonce and
    /// the ciphertext in hexadecimal.
    ///
    /// # Errors
    /// `Unavailable` if there are no random numbers.
    pub fn seal(&self, name: &str, secret: &str) -> Result<String> {
        let mut nonce = [0; NONCE_BYTES];
        self.environment.random.fill(&mut nonce)?;
        let payload = Payload { msg: secret.as_bytes(), aad: name.as_bytes() };
        let sealed = self
            .cipher
            .encrypt(XNonce::from_slice(&nonce), payload)
            .map_err(|_| Error::internal("cannot seal a secret"))?;
        Ok(format!("{}{}", hex(&nonce), hex(&sealed)))
    }

    /// Opens a secret that was sealed under this name.
    ///
    /// # Errors
    /// `PermissionDenied` if the secret was sealed with another key or is damaged.
    pub fn open_secret(&self, name: &str, sealed: &str) -> Result<String> {
        let wrong = || {
            Error::permission_denied("cannot open a secret: it was sealed with another key; name the right file with --sealing-key",
            )
            .with("name", name)
        };
        let bytes = unhex(sealed).filter(|bytes| bytes.len() > NONCE_BYTES).ok_or_else(wrong)?;
        let (nonce, sealed) = bytes.split_at(NONCE_BYTES);
        let payload = Payload { msg: sealed, aad: name.as_bytes() };
        let secret = self.cipher.decrypt(XNonce::from_slice(nonce), payload).map_err(|_| wrong())?;
        String::from_utf8(secret).map_err(|_| wrong())
    }
}

fn create_key(path: &Path, environment: &Environment) -> Result<()> {
    let io = |message| move |error| Error::io(Action::Admin, message, error);
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(dir).map_err(io("cannot create the directory of the sealing key"))?;
    let mut key = [0; KEY_BYTES];
    environment.random.fill(&mut key)?;
    // Write a temporary file and link it, so that two gateways that start at the same time use the
    // same complete key.
    let mut draft = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(dir)
        .map_err(io("cannot create the sealing key file"))?;
    writeln!(draft, "{}", hex(&key)).map_err(io("cannot write the sealing key"))?;
    draft.as_file().sync_all().map_err(io("cannot write the sealing key"))?;
    match draft.persist_noclobber(path) {
        Ok(_) => {
            fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(io("cannot write the sealing key"))
        }
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::io(Action::Admin, "cannot create the sealing key file", error.error)),
    }
}

fn read(path: &Path) -> Result<[u8; KEY_BYTES]> {
    let missing = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::not_found(
            "the sealing key file does not exist; `benthic s3 serve` creates one at its first start",
        ),
        _ => Error::io(Action::Admin, "cannot read the sealing key", error),
    };
    let found = fs::metadata(path).map_err(missing)?;
    if found.permissions().mode() & OTHERS_MODE != 0 {
        return Err(Error::permission_denied(
            "other users can read the sealing key; run `chmod 600` on the file",
        ));
    }
    if found.len() > FILE_BYTES_MAX {
        return Err(no_key());
    }
    let text = fs::read_to_string(path).map_err(missing)?;
    unhex(text.trim()).and_then(|key| key.try_into().ok()).ok_or_else(no_key)
}

fn no_key() -> Error {
    Error::invalid_argument("the sealing key file must contain 64 hexadecimal digits")
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
