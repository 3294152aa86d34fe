//! The credentials of the upstream. They never come from the command line, which other users of the
//! machine can read.

use benthic_core::{Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// Maximum size of a credentials file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// An access key of the upstream.
#[derive(Clone)]
pub struct Credentials {
    pub access_key: String,
    pub secret_key: String,
    /// Of temporary keys.
    pub session_token: Option<String>,
}

/// Shows no secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Finds credentials: those of a profile in `file`, else those of the environment variables
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`, else those of the
    /// profile in `AWS_SHARED_CREDENTIALS_FILE` or `~/.aws/credentials`. `AWS_PROFILE` names the
    /// profile; `default` otherwise.
    ///
    /// # Errors
    /// `InvalidArgument` if there are none, or the file is not valid.
    pub fn find(file: Option<&Path>, variable: impl Fn(&str) -> Option<String>) -> Result<Credentials> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
        if let Some(file) = file {
            return Credentials::of_file(file, &profile);
        }
        if let (Some(access_key), Some(secret_key)) =
            (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"))
        {
            return Ok(Credentials { access_key, secret_key, session_token: variable("AWS_SESSION_TOKEN") });
        }
        let path = variable("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
        let path = path.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".aws/credentials")));
        match path.filter(|path| path.exists()) {
            Some(path) => Credentials::of_file(&path, &profile),
            None => Err(Error::invalid_argument(
                "there are no credentials for the upstream; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or pass \
                 --upstream-credentials FILE",
            )),
        }
    }

    fn of_file(path: &Path, profile: &str) -> Result<Credentials> {
        let error = |message: &str| {
            Error::invalid_argument(message).with("path", path.display()).with("profile", profile)
        };
        let size_bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        if size_bytes > FILE_BYTES_MAX {
            return Err(error("the credentials file is too large"));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|source| error("cannot read the credentials file").with_source(source))?;
        Credentials::parse(&text, profile).ok_or_else(|| {
            error("the profile has no aws_access_key_id and aws_secret_access_key in the credentials file")
        })
    }

    /// Reads a profile from the text of an AWS credentials file.
    pub fn parse(text: &str, profile: &str) -> Option<Credentials> {
        let mut values = [None, None, None];
        let mut is_in = false;
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                is_in = name.trim() == profile;
            } else if let Some((name, value)) = line.split_once('=').filter(|_| is_in) {
                let names = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];
                if let Some(at) = names.iter().position(|known| *known == name.trim()) {
                    values[at] = Some(value.trim().to_owned());
                }
            }
        }
        let [access_key, secret_key, session_token] = values;
        Some(Credentials { access_key: access_key?, secret_key: secret_key?, session_token })
    }
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod tests;
