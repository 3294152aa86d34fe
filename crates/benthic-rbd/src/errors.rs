//! Maps librbd's errnos to error kinds and messages.

use benthic_core::error::errno;
use benthic_core::{Action, Error, ErrorKind, Result};
use std::ffi::CString;

/// Not in the table of errors: a directory, or here an image with snapshots, is not empty.
const ENOTEMPTY: i32 = 39;

/// The kind of a request to librbd. It decides the meaning of an errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Create,
    Open,
    Remove,
    Rename,
    Read,
    Write,
    CreateSnapshot,
    Snapshot,
    Resize,
    Flatten,
    Clone,
    Lock,
    Protect,
    Trash,
    CreateGroup,
    Group,
    GroupMember,
    CreateGroupSnapshot,
    GroupSnapshot,
}

impl What {
    fn action(self) -> Action {
        match self {
            What::Open | What::Read => Action::Read,
            _ => Action::Write,
        }
    }
}

/// The error for a positive errno.
pub fn of(number: i32, what: What) -> Error {
    let (kind, message) = match (what, number) {
        (What::Create | What::Clone | What::Rename, errno::EEXIST) => {
            (ErrorKind::AlreadyExists, "an image of this name already exists")
        }
        (What::CreateSnapshot, errno::EEXIST) => {
            (ErrorKind::AlreadyExists, "a snapshot of this name already exists")
        }
        (What::CreateGroup, errno::EEXIST) => (ErrorKind::AlreadyExists, "the group already exists"),
        (What::GroupMember, errno::EEXIST) => {
            (ErrorKind::AlreadyExists, "the image already belongs to another group")
        }
        (What::CreateGroupSnapshot, errno::EEXIST) => {
            (ErrorKind::AlreadyExists, "the group already has this snapshot")
        }
        (What::GroupMember, errno::ENOENT | errno::EINVAL) => {
            (ErrorKind::NotFound, "no such group or image, or the image does not belong to the group")
        }
        (What::Group | What::CreateGroupSnapshot, errno::ENOENT) => (ErrorKind::NotFound, "no such group"),
        (What::GroupSnapshot, errno::ENOENT) => (ErrorKind::NotFound, "no such group or snapshot"),
        (What::GroupSnapshot, errno::EROFS | errno::EBUSY | errno::EAGAIN) => (
            ErrorKind::Busy,
            "a program has an image of the group open; stop it, and try again; `benthic image info` names it",
        ),
        (What::CreateGroupSnapshot, errno::EROFS | errno::EBUSY | errno::EAGAIN) => (
            ErrorKind::Busy,
            "a program has an image of the group open and does not give up its lock in time; \
             try again, or stop the program, which `benthic image info` names",
        ),
        (What::Trash, errno::ENOENT) => (ErrorKind::NotFound, "the trash has no image with this id"),
        (What::Trash, errno::EEXIST) => (ErrorKind::AlreadyExists, "an image of this name already exists"),
        (What::Protect, errno::EBUSY) => (
            ErrorKind::Conflict,
            "the snapshot has clones of format 1, which need its protection; flatten or remove them first",
        ),
        (What::Snapshot | What::Protect | What::Clone | What::Read, errno::ENOENT) => {
            (ErrorKind::NotFound, "no such snapshot")
        }
        (What::Open | What::Remove | What::Rename, errno::ENOENT) => (ErrorKind::NotFound, "no such image"),
        (What::Remove | What::Trash, ENOTEMPTY) => (
            ErrorKind::Conflict,
            "the image has snapshots; remove them first (`rbd snap ls --all` shows all of them)",
        ),
        (What::Remove | What::Trash, errno::EBUSY) => (
            ErrorKind::Busy,
            "a program has the image open for writing; one that was killed counts for 30 s more",
        ),
        (What::Snapshot, errno::EBUSY) => {
            (ErrorKind::Conflict, "the snapshot is protected; `benthic image snap unprotect` ends that")
        }
        (What::Flatten, errno::EINVAL) => (ErrorKind::InvalidArgument, "the image is not a clone"),
        (What::Resize, errno::EFBIG | errno::EINVAL) => {
            (ErrorKind::LimitExceeded, "the image would be too large for its object map")
        }
        (What::Lock, errno::EBUSY | errno::EROFS | errno::EAGAIN) => return busy(),
        (What::Lock, errno::EINVAL) => (
            ErrorKind::Unsupported,
            "the image has no exclusive lock, so another program could write to it too; \
             `rbd feature enable POOL/IMAGE exclusive-lock` adds it",
        ),
        (_, errno::EROFS | errno::ESHUTDOWN) => (
            ErrorKind::Conflict,
            "another program has taken the image over, so this one may no longer write to it; open it again",
        ),
        (_, errno::EPERM | errno::EACCES) => (
            ErrorKind::PermissionDenied,
            "the cluster refuses this client; it needs the caps mon 'profile rbd' and osd 'profile rbd pool=POOL'",
        ),
        (_, errno::EINVAL) => (ErrorKind::InvalidArgument, "librbd refuses the request"),
        (What::Read | What::Open, errno::ETIMEDOUT) => {
            (ErrorKind::Unavailable, "no OSD answered in time; `ceph health detail` shows which are down")
        }
        (_, errno::ETIMEDOUT) => {
            (ErrorKind::OutcomeUnknown, "no OSD answered in time, and the change may have happened")
        }
        (_, errno::ENOSPC | errno::EDQUOT) => (ErrorKind::LimitExceeded, "the cluster or the pool is full"),
        _ => (ErrorKind::from_errno(number, what.action()), "librbd reports an error"),
    };
    Error::new(kind, message).with("errno", number)
}

/// Another program has the image open for writing.
pub fn busy() -> Error {
    let message = "another program has the image open for writing; one that was killed counts for 30 s more, unless the image is \
                   taken over";
    Error::busy(message)
}

/// A name as a C string.
///
/// # Errors
/// `InvalidArgument` for a NUL.
pub fn c_string(name: &str) -> Result<CString> {
    CString::new(name).map_err(|error| Error::invalid_argument("a name contains a NUL").with_source(error))
}
