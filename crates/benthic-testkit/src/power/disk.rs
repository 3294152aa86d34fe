//! A simulated disk below a file system that promises no more than POSIX does. A record of file
//! operations drives it.
//!
//! Only synced state is durable: the sync of a file makes its bytes and size durable, and the sync
//! of a directory makes its names durable. A power cut may keep any part of the rest: any selection
//! of 512-byte sectors, a new size with or without the data written up to it, and any selection of
//! names. A failed sync of a file leaves any part of the data that it was to write, and no later
//! sync writes the rest. Linux behaves this way.

use super::record::{Call, Event, Record};
use crate::random::Rng;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Result;
use std::path::Path;

const SECTOR_BYTES: usize = 512;
/// Flags of `fallocate`.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;

/// A sync that returned. A test can choose to ignore it.
#[derive(Debug)]
pub struct Sync<'a> {
    /// The relative path of the file or directory; empty for the recorded directory itself.
    pub path: &'a str,
    pub is_dir: bool,
    /// The next file that the same thread writes, opens or renames; empty if there is none.
    pub next_path: &'a str,
}

/// The part of the unsynced changes that a power cut keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Nothing,
    AllButOne,
    Any,
}

/// A directory tree: path → contents, or `None` for a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTree(pub BTreeMap<String, Option<Vec<u8>>>);

/// The disk at one point of a record.
pub struct Disk<'a> {
    events: &'a [Event],
    at: usize,
    nodes: Vec<Node>,
    fds: HashMap<i32, (usize, String)>,
    /// Running syncs, by the event at which each began. A sync covers only changes before that
    /// event.
    syncs: HashMap<u64, usize>,
    skip: Box<dyn Fn(&Sync<'_>) -> bool + 'a>,
    rng: Rng,
}

#[derive(Default)]
struct Node {
    is_dir: bool,
    live: Content,
    durable: Content,
    pending: Vec<Change>,
}

#[derive(Clone, Default)]
struct Content {
    bytes: Vec<u8>,
    names: BTreeMap<String, usize>,
}

#[derive(Clone)]
struct Change {
    at: usize,
    effect: Effect,
}

#[derive(Clone)]
enum Effect {
    Write(usize, Vec<u8>),
    SetSize(usize),
    Zero(usize, usize),
    Extend(usize),
    Name(String, Option<usize>),
    /// Renames an entry within its directory.
    Move(String, String, usize),
}

impl<'a> Disk<'a> {
    /// The disk before the first event, with `before` as its initial, durable content.
    pub fn new(record: &'a Record, before: &FileTree, seed: u64) -> Disk<'a> {
        Disk::without(record, before, seed, |_| false)
    }

    /// A disk that ignores the syncs that `skip` selects, although they return success.
    pub fn without(
        record: &'a Record,
        before: &FileTree,
        seed: u64,
        skip: impl Fn(&Sync<'_>) -> bool + 'a,
    ) -> Disk<'a> {
        let mut disk = Disk {
            events: &record.events,
            at: 0,
            nodes: vec![Node { is_dir: true, ..Node::default() }],
            fds: HashMap::new(),
            syncs: HashMap::new(),
            skip: Box::new(skip),
            rng: Rng(seed),
        };
        for (path, content) in &before.0 {
            let bytes = content.clone().unwrap_or_default();
            let content_of = Content { bytes, ..Content::default() };
            let node = disk.add(content.is_none());
            disk.nodes[node].live = content_of.clone();
            disk.nodes[node].durable = content_of;
            let (parent, name) = disk.parent(path);
            disk.nodes[parent].live.names.insert(name.clone(), node);
            disk.nodes[parent].durable.names.insert(name, node);
        }
        disk
    }

    pub fn advance(&mut self, end: usize) {
        while self.at < end.min(self.events.len()) {
            self.step();
            self.at += 1;
        }
    }

    /// The tree that the process sees.
    pub fn live(&self) -> FileTree {
        let mut state = FileTree::default();
        self.walk(0, "", &|node| &self.nodes[node].live, &mut state);
        state
    }

    /// A tree that a power cut at this point could leave.
    pub fn cut(&self, cut: Cut, rng: &mut Rng) -> FileTree {
        let changes: usize = self.nodes.iter().map(|node| node.pending.len()).sum();
        let spared = rng.below(changes);
        let mut before = 0;
        let contents: Vec<Content> = self
            .nodes
            .iter()
            .map(|node| {
                let mut content = node.durable.clone();
                for (index, change) in node.pending.iter().enumerate() {
                    match cut {
                        Cut::Nothing => {}
                        Cut::AllButOne if before + index == spared => {}
                        Cut::AllButOne => content.apply(&change.effect),
                        Cut::Any => content.apply_in_part(&change.effect, rng),
                    }
                }
                before += node.pending.len();
                content
            })
            .collect();
        let mut state = FileTree::default();
        self.walk(0, "", &|node| &contents[node], &mut state);
        state
    }

    fn walk<'c>(
        &self,
        node: usize,
        path: &str,
        content: &dyn Fn(usize) -> &'c Content,
        state: &mut FileTree,
    ) {
        for (name, child) in &content(node).names {
            let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            if self.nodes[*child].is_dir {
                state.0.insert(path.clone(), None);
                self.walk(*child, &path, content, state);
            } else {
                state.0.insert(path, Some(content(*child).bytes.clone()));
            }
        }
    }

    fn step(&mut self) {
        let events = self.events;
        match &events[self.at].call {
            Call::Open { fd, path, created, truncated } => {
                let node = match self.find(path) {
                    Some(node) => {
                        if *truncated {
                            self.change(node, Effect::SetSize(0));
                        }
                        node
                    }
                    None => {
                        assert!(*created, "{path} was opened but does not exist");
                        let node = self.add(false);
                        let (parent, name) = self.parent(path);
                        self.change(parent, Effect::Name(name, Some(node)));
                        node
                    }
                };
                self.fds.insert(*fd, (node, path.clone()));
            }
            Call::Close { fd } => drop(self.fds.remove(fd)),
            Call::Duplicate { fd, twin } => {
                let file = self.fds[fd].clone();
                self.fds.insert(*twin, file);
            }
            Call::Write { fd, offset_bytes, data } => {
                self.change(self.fds[fd].0, Effect::Write(*offset_bytes as usize, data.clone()));
            }
            Call::SetSize { fd, size_bytes } => {
                self.change(self.fds[fd].0, Effect::SetSize(*size_bytes as usize));
            }
            Call::Allocate { fd, mode, offset_bytes, len_bytes } => {
                let (node, at, len) = (self.fds[fd].0, *offset_bytes as usize, *len_bytes as usize);
                if mode & !(KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE) != 0 {
                    panic!("fallocate has an unknown mode mode={mode}");
                }
                if mode & (PUNCH_HOLE | ZERO_RANGE) != 0 {
                    self.change(node, Effect::Zero(at, len));
                }
                if mode & KEEP_SIZE == 0 {
                    self.change(node, Effect::Extend(at + len));
                }
            }
            Call::Rename { from, to } => {
                let node = self.find(from).unwrap_or_else(|| panic!("{from} was renamed but does not exist"));
                let ((old, old_name), (new, new_name)) = (self.parent(from), self.parent(to));
                if old == new {
                    self.change(old, Effect::Move(old_name, new_name, node));
                } else {
                    self.change(new, Effect::Name(new_name, Some(node)));
                    self.change(old, Effect::Name(old_name, None));
                }
            }
            Call::Unlink { path } | Call::RemoveDir { path } => {
                let (parent, name) = self.parent(path);
                self.change(parent, Effect::Name(name, None));
            }
            Call::MakeDir { path } if path.is_empty() => {}
            Call::MakeDir { path } => {
                let node = self.add(true);
                let (parent, name) = self.parent(path);
                self.change(parent, Effect::Name(name, Some(node)));
            }
            Call::SyncBegin { sync, .. } => drop(self.syncs.insert(*sync, self.at)),
            Call::SyncEnd { fd, sync, errno } => self.end_sync(*fd, *sync, *errno),
            Call::Mark { .. } | Call::Fault { .. } => {}
        }
    }

    fn end_sync(&mut self, fd: i32, sync: u64, errno: i32) {
        let (node, path) = self.fds[&fd].clone();
        let began = self.syncs.remove(&sync).unwrap_or(self.at);
        let is_dir = self.nodes[node].is_dir;
        let next_path = self.next_path();
        if (self.skip)(&Sync { path: &path, is_dir, next_path: &next_path }) {
            return;
        }
        if is_dir && errno != 0 {
            return;
        }
        let node = &mut self.nodes[node];
        let (older, newer) =
            std::mem::take(&mut node.pending).into_iter().partition(|change: &Change| change.at < began);
        node.pending = newer;
        for change in older {
            match errno {
                0 => node.durable.apply(&change.effect),
                _ => node.durable.apply_in_part(&change.effect, &mut self.rng),
            }
        }
    }

    /// The next path that the thread of the current event accesses.
    fn next_path(&self) -> String {
        let thread = self.events[self.at].thread;
        for event in self.events[self.at + 1..].iter().filter(|event| event.thread == thread) {
            match &event.call {
                Call::Open { path, .. } | Call::Rename { from: path, .. } | Call::Unlink { path } => {
                    return path.clone();
                }
                Call::Write { fd, .. } | Call::SyncBegin { fd, .. } => {
                    return self.fds.get(fd).map(|(_, path)| path.clone()).unwrap_or_default();
                }
                _ => {}
            }
        }
        String::new()
    }

    fn change(&mut self, node: usize, effect: Effect) {
        let at = self.at;
        let node = &mut self.nodes[node];
        node.live.apply(&effect);
        node.pending.push(Change { at, effect });
    }

    fn add(&mut self, is_dir: bool) -> usize {
        self.nodes.push(Node { is_dir, ..Node::default() });
        self.nodes.len() - 1
    }

    fn find(&self, path: &str) -> Option<usize> {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        parts.try_fold(0, |node, part| self.nodes[node].live.names.get(part).copied())
    }

    fn parent(&self, path: &str) -> (usize, String) {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent =
            self.find(parent).unwrap_or_else(|| panic!("the parent directory of {path} does not exist"));
        (parent, name.to_owned())
    }
}

impl Content {
    fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Write(at, data) => {
                self.extend(at + data.len());
                self.bytes[*at..at + data.len()].copy_from_slice(data);
            }
            Effect::SetSize(size) => self.bytes.resize(*size, 0),
            Effect::Zero(at, len) => {
                let size = self.bytes.len();
                self.bytes[(*at).min(size)..(at + len).min(size)].fill(0);
            }
            Effect::Extend(size) => self.extend(*size),
            Effect::Name(name, Some(node)) => drop(self.names.insert(name.clone(), *node)),
            Effect::Name(name, None) => drop(self.names.remove(name)),
            Effect::Move(from, to, node) => {
                self.names.remove(from);
                self.names.insert(to.clone(), *node);
            }
        }
    }

    fn extend(&mut self, size: usize) {
        self.bytes.resize(self.bytes.len().max(size), 0);
    }

    /// Applies a change wholly, partly or not at all.
    fn apply_in_part(&mut self, effect: &Effect, rng: &mut Rng) {
        match rng.below(4) {
            0 => return,
            1 => return self.apply(effect),
            _ => {}
        }
        match effect {
            Effect::Write(at, data) => {
                // Sets a size inside the written range and applies some of the sectors below it.
                let end = at + data.len();
                match rng.below(3) {
                    0 => self.extend(end),
                    1 => self.extend(at + rng.below(data.len())),
                    _ => {}
                }
                let end = end.min(self.bytes.len());
                let mut from = *at;
                while from < end {
                    let to = ((from / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
                    if rng.one_in(2) {
                        self.bytes[from..to].copy_from_slice(&data[from - at..to - at]);
                    }
                    from = to;
                }
            }
            Effect::Zero(at, len) => {
                for from in (*at..at + len).step_by(8 * SECTOR_BYTES) {
                    if rng.one_in(2) {
                        self.apply(&Effect::Zero(from, (8 * SECTOR_BYTES).min(at + len - from)));
                    }
                }
            }
            Effect::Move(_, to, node) if rng.one_in(2) => {
                self.apply(&Effect::Name(to.clone(), Some(*node)));
            }
            Effect::Move(from, _, _) if rng.one_in(4) => self.apply(&Effect::Name(from.clone(), None)),
            _ if rng.one_in(2) => self.apply(effect),
            _ => {}
        }
    }
}

impl FileTree {
    /// Reads the tree below a directory. Sockets are skipped.
    ///
    /// # Errors
    /// The file system's errors.
    pub fn read(dir: &Path) -> Result<FileTree> {
        let mut state = FileTree::default();
        read_into(dir, "", &mut state)?;
        Ok(state)
    }

    /// Writes the tree into an empty directory.
    ///
    /// # Errors
    /// The file system's errors.
    pub fn write(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir)?;
        for (path, content) in &self.0 {
            match content {
                None => fs::create_dir(dir.join(path))?,
                Some(bytes) => fs::write(dir.join(path), bytes)?,
            }
        }
        Ok(())
    }

    pub fn difference(&self, other: &FileTree) -> Option<String> {
        let paths = self.0.keys().chain(other.0.keys());
        paths.into_iter().find_map(|path| match (self.0.get(path), other.0.get(path)) {
            (Some(one), Some(another)) if one == another => None,
            (Some(Some(one)), Some(Some(another))) => {
                let at = one.iter().zip(another).position(|(a, b)| a != b);
                Some(format!("{path}: len_bytes={} and {}, first at {at:?}", one.len(), another.len()))
            }
            (one, another) => {
                Some(format!("{path}: exists={} and exists={}", one.is_some(), another.is_some()))
            }
        })
    }
}

fn read_into(dir: &Path, prefix: &str, state: &mut FileTree) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            read_into(&entry.path(), &format!("{path}/"), state)?;
            state.0.insert(path, None);
        } else if kind.is_file() {
            state.0.insert(path, Some(fs::read(entry.path())?));
        }
    }
    Ok(())
}
