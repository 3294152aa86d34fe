//! The calls that create, delete, list and enlarge volumes. A volume is a block image.

use super::{READ_AT_ONCE, bad_token, bytes, page};
use crate::driver::{Call, require};
use crate::errors::{Failure, Outcome};
use crate::messages::{
    Confirmed, ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, CreateVolumeRequest,
    CreateVolumeResponse, DeleteVolumeRequest, Empty, ListVolumesRequest, ListVolumesResponse,
    ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse, Volume, VolumeContentSource,
    VolumeEntry,
};
use crate::names::{self, for_clone, is_for_clone, is_ours};
use crate::volume::{Sizes, Usage};
use benthic_block::{Change, CreateOptions, Geometry, ImageAddress, Images, OpenMode};
use benthic_core::{Error, ErrorKind, OptionalExtension};
use futures::stream::{self, StreamExt, TryStreamExt};
use std::collections::HashMap;
use tonic::Code;

/// The parameter of a storage class that names the pool.
const POOL: &str = "pool";
/// The beginning of parameters that Kubernetes adds.
const OF_KUBERNETES: &str = "csi.storage.k8s.io/";

/// Where the bytes of a new volume come from: a snapshot in the same pool.
struct Source {
    image: String,
    snapshot: String,
    /// The snapshot is taken for the new volume.
    is_volume: bool,
}

impl Call {
    /// Creates a volume: an empty one, or a clone of a snapshot or of another volume.
    pub async fn create_volume(&self, request: CreateVolumeRequest) -> Outcome<CreateVolumeResponse> {
        require(&request.name, "name")?;
        Usage::check_all(&request.volume_capabilities)?;
        let sizes = Sizes::of(request.capacity_range.as_ref())?;
        let pool = self.pool(&request.parameters)?;
        let name = names::internal(&request.name);
        let source = match &request.volume_content_source {
            Some(source) => Some(self.source(source, &pool, &name)?),
            None => None,
        };
        let volume_id = format!("{pool}/{name}");
        let _lock = self.lock(&volume_id)?;
        let images = self.images(&pool).await?;
        let size_bytes = match images.open(&name, None, OpenMode::ReadOnly).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                create(&*images, &name, source.as_ref(), sizes).await?
            }
            Err(error) => return Err(error.into()),
            Ok(image) => {
                let info = image.info();
                let parent =
                    source.as_ref().map(|source| format!("{pool}/{}@{}", source.image, source.snapshot));
                let is_same = info.parent == parent;
                match &source {
                    _ if is_same && sizes.contain(info.size_bytes) => info.size_bytes,
                    // The clone may lack its size, because an earlier call was interrupted.
                    Some(source) if is_same && size(&*images, source).await? == info.size_bytes => {
                        resize(&*images, &name, info.size_bytes, sizes).await?
                    }
                    _ => {
                        let message = format!(
                            "the volume exists with another size or source volume_id={volume_id:?} size_bytes={}",
                            info.size_bytes
                        );
                        return Err(Failure::new(Code::AlreadyExists, message));
                    }
                }
            }
        };
        let content_source = request.volume_content_source;
        Ok(CreateVolumeResponse {
            volume: Some(Volume { capacity_bytes: bytes(size_bytes), volume_id, content_source }),
        })
    }

    /// Deletes a volume. Succeeds if it does not exist.
    pub async fn delete_volume(&self, request: DeleteVolumeRequest) -> Outcome<Empty> {
        let address = match self.volume(&request.volume_id) {
            Err(failure) if failure.code == Code::NotFound => return Ok(Empty {}),
            address => address?,
        };
        let _lock = self.lock(&request.volume_id)?;
        let images = self.images(&address.pool).await?;
        let parent = match images.open(&address.image, None, OpenMode::ReadOnly).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Empty {}),
            // An interrupted removal.
            Err(error) if error.kind() == ErrorKind::Conflict => None,
            image => {
                let image = image?;
                let snapshots: Vec<String> =
                    image.snapshots().await?.into_iter().map(|snapshot| snapshot.name).collect();
                remove_snapshots(&*images, &address, &snapshots).await?;
                image.info().parent
            }
        };
        images.remove(&address.image).await?;
        if let Some(parent) = parent.and_then(|parent| parent.parse::<ImageAddress>().ok())
            && let Some(snapshot) = parent.snapshot.filter(|snapshot| is_for_clone(snapshot))
            && let Err(error) = remove_snapshot(&*images, &parent.image, snapshot).await
        {
            tracing::warn!(%error, "a snapshot that no volume needs stays until its volume is deleted");
        }
        Ok(Empty {})
    }

    /// Tells whether a volume can be used in some ways.
    pub async fn validate_volume_capabilities(
        &self,
        request: ValidateVolumeCapabilitiesRequest,
    ) -> Outcome<ValidateVolumeCapabilitiesResponse> {
        require(&request.volume_id, "volume_id")?;
        if request.volume_capabilities.is_empty() {
            return Err(Failure::invalid("the volume_capabilities are missing"));
        }
        let address = self.volume(&request.volume_id)?;
        self.images(&address.pool).await?.open(&address.image, None, OpenMode::ReadOnly).await?;
        Ok(match Usage::check_all(&request.volume_capabilities) {
            Err(failure) => ValidateVolumeCapabilitiesResponse { confirmed: None, message: failure.message },
            Ok(()) => ValidateVolumeCapabilitiesResponse {
                confirmed: Some(Confirmed {
                    volume_context: request.volume_context,
                    volume_capabilities: request.volume_capabilities,
                    parameters: request.parameters,
                }),
                message: String::new(),
            },
        })
    }

    /// Lists the volumes of all pools of the driver.
    pub async fn list_volumes(&self, request: ListVolumesRequest) -> Outcome<ListVolumesResponse> {
        let token = &request.starting_token;
        if !token.is_empty() && names::volume(token).is_none() {
            return Err(bad_token(token));
        }
        let (ids, next_token) = page(self.volume_ids().await?, token, request.max_entries)?;
        let sizes = stream::iter(ids).map(async |volume_id| {
            let address = self.volume(&volume_id)?;
            let images = self.images(&address.pool).await?;
            match images.open(&address.image, None, OpenMode::ReadOnly).await {
                // The volume is being deleted.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict) => Ok(None),
                image => {
                    let capacity_bytes = bytes(image?.info().size_bytes);
                    let volume = Volume { capacity_bytes, volume_id, content_source: None };
                    Ok::<_, Failure>(Some(VolumeEntry { volume: Some(volume) }))
                }
            }
        });
        let entries: Vec<_> = sizes.buffered(READ_AT_ONCE).try_collect().await?;
        Ok(ListVolumesResponse { entries: entries.into_iter().flatten().collect(), next_token })
    }

    /// Makes a volume larger, which no node may have attached. The file system grows when a node
    /// stages the volume.
    pub async fn controller_expand_volume(
        &self,
        request: ControllerExpandVolumeRequest,
    ) -> Outcome<ControllerExpandVolumeResponse> {
        require(&request.volume_id, "volume_id")?;
        if request.capacity_range.is_none() {
            return Err(Failure::invalid("the field capacity_range is missing"));
        }
        let sizes = Sizes::of(request.capacity_range.as_ref())?;
        let address = self.volume(&request.volume_id)?;
        let _lock = self.lock(&request.volume_id)?;
        let images = self.images(&address.pool).await?;
        let old_bytes = images.open(&address.image, None, OpenMode::ReadOnly).await?.info().size_bytes;
        if !sizes.contain(old_bytes)
            && let Some(writer) = images.writers(&address.image).await?.into_iter().next()
        {
            let message = format!(
                "a node has the volume attached; stop its workload to expand the volume volume_id={:?} writer={writer:?}",
                request.volume_id
            );
            return Err(Failure::new(Code::FailedPrecondition, message));
        }
        let size_bytes = resize(&*images, &address.image, old_bytes, sizes).await?;
        Ok(ControllerExpandVolumeResponse {
            capacity_bytes: bytes(size_bytes),
            node_expansion_required: false,
        })
    }

    /// The identifiers of all volumes, sorted.
    pub(super) async fn volume_ids(&self) -> Outcome<Vec<String>> {
        let mut ids = Vec::new();
        for pool in &self.driver.config.pools {
            let names = self.images(pool).await?.list().await?;
            ids.extend(names.into_iter().filter(|name| is_ours(name)).map(|name| format!("{pool}/{name}")));
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// The pool of a new volume.
    fn pool(&self, parameters: &HashMap<String, String>) -> Outcome<String> {
        let is_unknown = |name: &&String| *name != POOL && !name.starts_with(OF_KUBERNETES);
        if let Some(name) = parameters.keys().find(is_unknown) {
            return Err(Failure::invalid(format!("the only parameter is pool parameter={name:?}")));
        }
        let pools = &self.driver.config.pools;
        match parameters.get(POOL).or(pools.first()) {
            Some(pool) if pools.contains(pool) => Ok(pool.clone()),
            pool => {
                let pool = pool.map_or("", String::as_str);
                let message =
                    format!("the driver does not serve the pool; start it with --pool {pool} pool={pool}");
                Err(Failure::invalid(message))
            }
        }
    }

    fn source(&self, source: &VolumeContentSource, pool: &str, name: &str) -> Outcome<Source> {
        let (address, snapshot, is_volume) = match source {
            VolumeContentSource { snapshot: Some(snapshot), volume: None } => {
                let id = &snapshot.snapshot_id;
                let (address, snapshot) = names::snapshot(id).ok_or_else(|| {
                    Failure::new(Code::NotFound, format!("no such snapshot snapshot_id={id:?}"))
                })?;
                (address, snapshot, false)
            }
            VolumeContentSource { snapshot: None, volume: Some(volume) } => {
                (self.volume(&volume.volume_id)?, for_clone(name), true)
            }
            _ => return Err(Failure::invalid("the volume_content_source has no type")),
        };
        if address.pool == pool {
            return Ok(Source { image: address.image, snapshot, is_volume });
        }
        let message = format!(
            "a clone must be in the pool of its source; use a storage class of that pool pool={pool} source={address}"
        );
        Err(Failure::invalid(message))
    }
}

/// Creates an image, and returns its size.
async fn create(images: &dyn Images, name: &str, source: Option<&Source>, sizes: Sizes) -> Outcome<u64> {
    let Some(source) = source else {
        let size_bytes = sizes.choose(0)?;
        images.create(name, CreateOptions::new(size_bytes, Geometry::default())).await?;
        return Ok(size_bytes);
    };
    if source.is_volume {
        let change = Change::CreateSnapshot { name: source.snapshot.clone() };
        match images.change(&source.image, change).await {
            // Of an earlier call that was interrupted.
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
            _ => {}
        }
    }
    let cloned = async {
        let size_bytes = size(images, source).await?;
        sizes.choose(size_bytes)?;
        images.clone_snapshot(&source.image, &source.snapshot, name).await?;
        Ok(size_bytes)
    };
    match cloned.await {
        Ok(size_bytes) => resize(images, name, size_bytes, sizes).await,
        Err(failure) => {
            if source.is_volume
                && let Err(error) = remove_snapshot(images, &source.image, source.snapshot.clone()).await
            {
                tracing::warn!(%error, "a snapshot that no volume needs stays until its volume is deleted");
            }
            Err(failure)
        }
    }
}

/// The size of a source.
async fn size(images: &dyn Images, source: &Source) -> Outcome<u64> {
    Ok(images.open(&source.image, Some(&source.snapshot), OpenMode::ReadOnly).await?.info().size_bytes)
}

/// Makes an image large enough, and returns its size.
async fn resize(images: &dyn Images, name: &str, old_bytes: u64, sizes: Sizes) -> Outcome<u64> {
    if sizes.contain(old_bytes) {
        return Ok(old_bytes);
    }
    let size_bytes = sizes.choose(old_bytes)?;
    images.change(name, Change::Resize { size_bytes }).await?;
    Ok(size_bytes)
}

/// Removes the snapshots that were taken for clones. Fails if there are others, or clones.
async fn remove_snapshots(images: &dyn Images, address: &ImageAddress, snapshots: &[String]) -> Outcome<()> {
    let refuse = |message: &str| Err(Failure::new(Code::FailedPrecondition, message));
    let others: Vec<&str> = snapshots.iter().filter(|name| !is_for_clone(name)).map(String::as_str).collect();
    if !others.is_empty() {
        let others = others.join(",");
        return refuse(&format!(
            "the volume has snapshots; delete them first volume={address} snapshots={others}"
        ));
    }
    for snapshot in snapshots {
        match remove_snapshot(images, &address.image, snapshot.clone()).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                return refuse(&format!("the volume cannot be deleted: {}", error.text()));
            }
            removed => removed?,
        }
    }
    Ok(())
}

/// Removes a snapshot, which may be gone already.
async fn remove_snapshot(images: &dyn Images, image: &str, name: String) -> Result<(), Error> {
    images.change(image, Change::RemoveSnapshot { name }).await.optional().map(drop)
}
