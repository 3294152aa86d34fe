//! The images that a server serves.

use super::stats::Stats;
use super::throttle::Throttle;
use crate::{Image, Limits};
use benthic_core::Result;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How often a server looks for new limits of an image.
const LIMITS_POLL: Duration = Duration::from_secs(1);

/// An image that clients can use.
pub struct Export {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) image: Arc<dyn Image>,
    throttle: Arc<Throttle>,
    pub(super) stats: Stats,
    /// Its position among the exports of a server.
    pub(super) number: usize,
}

impl Export {
    /// `name` is `POOL/IMAGE` or `POOL/IMAGE@SNAPSHOT`.
    pub fn new(name: String, description: String, image: Arc<dyn Image>) -> Export {
        let throttle = Arc::new(Throttle::new(&Limits::default()));
        Export { name, description, image, throttle, stats: Stats::default(), number: 0 }
    }

    pub(super) fn throttle(&self) -> Arc<Throttle> {
        Arc::clone(&self.throttle)
    }
}

/// The images that a server serves.
pub struct Exports(pub(super) Vec<Arc<Export>>);

impl Exports {
    pub fn new(exports: Vec<Export>) -> Exports {
        let numbered = |(number, export)| Arc::new(Export { number, ..export });
        Exports(exports.into_iter().enumerate().map(numbered).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Export> {
        self.0.iter().map(|export| &**export)
    }

    /// Finds an export. The empty name means the only export.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Export>> {
        match &self.0[..] {
            [only] if name.is_empty() => Some(Arc::clone(only)),
            all => all.iter().find(|export| export.name == name).cloned(),
        }
    }

    /// Reads the limits of all exports, and starts to look for new ones. The tasks end with the
    /// result.
    ///
    /// # Errors
    /// Those of reading the limits: an image whose limits are unknown is not served.
    pub(super) async fn watch_limits(&self) -> Result<JoinSet<()>> {
        let mut watches = JoinSet::new();
        for export in &self.0 {
            let limits = export.image.limits().await?;
            export.throttle.set(&limits);
            watches.spawn(watch(Arc::clone(export), limits));
        }
        Ok(watches)
    }
}

async fn watch(export: Arc<Export>, mut limits: Limits) {
    let mut is_known = true;
    loop {
        tokio::time::sleep(LIMITS_POLL).await;
        match export.image.limits().await {
            Ok(found) => {
                is_known = true;
                if found != limits {
                    tracing::info!(export = export.name, limits = ?found, "an image has new limits");
                    export.throttle.set(&found);
                    limits = found;
                }
            }
            // The old limits stay. One line is enough.
            Err(error) if is_known => {
                is_known = false;
                tracing::warn!(export = export.name, %error, "cannot read the limits of an image");
            }
            Err(_) => {}
        }
    }
}
