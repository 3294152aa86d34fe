//! The check of an image. Every object that a map names must be stored. An interrupted operation
//! may leave objects that no map names: they take space until a repair removes them.

use super::blocks::BLOCKS_XATTR;
use super::image::{PIECES_IN_FLIGHT, PoolImage};
use super::map::{self, Entry};
use super::objects;
use crate::contract::Check;
use benthic_core::{ErrorKind, ObjectId, Result};
use futures::stream::{self, StreamExt, TryStreamExt};
use std::collections::HashMap;

/// The two numbers in the name of a data object or of a map's page.
type NameNumbers = (u32, u32);

/// The stored objects of a kind, and whether something names them.
type Stored = HashMap<NameNumbers, bool>;

/// A view whose map is checked.
struct View {
    name: String,
    /// False for a snapshot whose removal is unfinished: objects may be missing.
    is_shown: bool,
    map: u32,
    entries: Vec<Entry>,
}

/// The data objects from which another one takes the blocks that it lacks, and the damage of the
/// last one.
#[derive(Default)]
struct Chain {
    places: Vec<NameNumbers>,
    damage: Option<(ObjectId, String)>,
}

impl PoolImage {
    pub(super) async fn check_objects(&self, repair: bool) -> Result<Check> {
        let _admin = self.admin.lock().await;
        let _at_rest = self.gate.write().await;
        self.writer().await?;
        let mut check = Check::default();
        let mut pages = self.list_stored(&self.id.maps_prefix()).await?;
        let mut data = self.list_stored(&self.id.data_prefix()).await?;
        check.objects = (pages.len() + data.len()) as u64;
        for view in self.views(&mut check).await? {
            for page in 0..map::pages(view.entries.len()) {
                pages.insert((view.map, page), true);
            }
            self.check_view(&view, &mut data, &mut check).await?;
        }
        let unused = |stored: Stored| stored.into_iter().filter(|(_, used)| !used).map(|(place, _)| place);
        for (map, page) in unused(pages) {
            self.leftover(self.id.map_page(map, page)?, repair, &mut check).await?;
        }
        for (object, version) in unused(data) {
            self.leftover(self.id.data(object, version)?, repair, &mut check).await?;
        }
        Ok(check)
    }

    async fn list_stored(&self, prefix: &str) -> Result<Stored> {
        let mut stored = Stored::new();
        let parse = |object: &ObjectId| {
            let (first, second) = object.name().strip_prefix(prefix)?.split_once('.')?;
            Some((u32::from_str_radix(first, 16).ok()?, u32::from_str_radix(second, 16).ok()?))
        };
        let mut pages = objects::list(&*self.pool, prefix);
        while let Some(page) = pages.try_next().await? {
            stored.extend(page.iter().filter_map(parse).map(|place| (place, false)));
        }
        Ok(stored)
    }

    /// The head and the snapshots whose maps can be read.
    async fn views(&self, check: &mut Check) -> Result<Vec<View>> {
        let (header, entries) = {
            let state = self.state.read();
            (state.header.clone(), state.map.clone())
        };
        let mut views = vec![View { name: "the image".to_owned(), is_shown: true, map: header.map, entries }];
        for snapshot in &header.snapshots {
            let objects = header.geometry.objects(snapshot.size_bytes) as usize;
            let name = format!("snapshot {}", snapshot.name);
            let is_shown = !snapshot.is_removing();
            match map::load(&*self.pool, self.id, snapshot.number, objects).await {
                Ok(entries) => views.push(View { name, is_shown, map: snapshot.number, entries }),
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    check.damage(None, format!("{name}: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        // Check the shown views first, so that they report the damage.
        views.sort_by_key(|view| !view.is_shown);
        Ok(views)
    }

    /// Checks the data objects that a view shows, and marks them as used.
    async fn check_view(&self, view: &View, data: &mut Stored, check: &mut Check) -> Result<()> {
        let mut copied = Vec::new();
        for (object, entry) in view.entries.iter().enumerate() {
            let Some(version) = entry.version() else { continue };
            let place = (object as u32, version);
            match data.get_mut(&place) {
                // Another view has led here.
                Some(true) => {}
                Some(used) => {
                    *used = true;
                    if !entry.is_whole() {
                        copied.push(place);
                    }
                }
                None if view.is_shown => self.missing(place, view, check)?,
                None => {}
            }
        }
        let known = &*data;
        let chains: Vec<Chain> = stream::iter(copied)
            .map(|place| self.chain(place, known))
            .buffer_unordered(PIECES_IN_FLIGHT)
            .try_collect()
            .await?;
        for Chain { places, damage } in chains {
            for place in places {
                data.insert(place, true);
            }
            if let Some((object, message)) = damage.filter(|_| view.is_shown) {
                check.damage(Some(object), format!("{message}; {} needs it", view.name));
            }
        }
        Ok(())
    }

    /// Follows a data object to those from which it takes the blocks that it lacks.
    async fn chain(&self, (object, mut version): NameNumbers, data: &Stored) -> Result<Chain> {
        let mut chain = Chain::default();
        loop {
            let blocks = match self.blocks(object, version).await {
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    let message = format!("{error} (attribute {BLOCKS_XATTR})");
                    chain.damage = Some((self.id.data(object, version)?, message));
                    return Ok(chain);
                }
                blocks => blocks?,
            };
            let Some(blocks) = blocks.filter(|blocks| !blocks.has_all(self.object_bytes())) else {
                return Ok(chain);
            };
            version = blocks.below;
            if version == 0 {
                return Ok(chain);
            }
            if !data.contains_key(&(object, version)) {
                let message = "a data object with older blocks is missing".to_owned();
                chain.damage = Some((self.id.data(object, version)?, message));
                return Ok(chain);
            }
            chain.places.push((object, version));
        }
    }

    fn missing(&self, (object, version): NameNumbers, view: &View, check: &mut Check) -> Result<()> {
        let message = format!("the data object is missing; {} needs it", view.name);
        check.damage(Some(self.id.data(object, version)?), message);
        Ok(())
    }

    async fn leftover(&self, object: ObjectId, repair: bool, check: &mut Check) -> Result<()> {
        check.repairable(Some(&object), "nothing uses the object; an interrupted operation has left it");
        // Without the damage, the image might use the object.
        if repair && check.damage_count == 0 {
            objects::remove(&*self.pool, &object).await?;
        }
        Ok(())
    }
}
