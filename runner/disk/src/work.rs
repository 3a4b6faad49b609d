//! What the keeper's children do, each with one workspace.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::image::{self, Geometry};
use crate::keeper::{Order, Outcome, Root};
use crate::store::{Form, Name, Store, open_directory, open_image};
use crate::{quota, wipe};
use boxkite_system::step::{At, Broken};
use boxkite_system::sys::{self, Errno};
use boxkite_wire::effective::workspace_via;
use boxkite_wire::frames::{Code, Failure};

/// How long an image that is to be opened may still be bound by a runner that was killed.
const LEFT: Duration = Duration::from_secs(10);
/// How long the kernel may take to let go of one that nobody uses any more.
const LET_GO: Duration = Duration::from_secs(60);

/// A mounted workspace, attached nowhere.
pub struct Opened {
    pub mount: OwnedFd,
    pub bytes: u64,
    pub inodes: u64,
    /// By its number in `Effective`.
    pub via: u8,
}

/// Carries an order out.
pub fn run(store: &Store, roots: &[Root], name: Name, order: Order, mount: Option<OwnedFd>) -> Outcome {
    match order {
        Order::Make { bytes, inodes, owner } => {
            let form = store.form;
            let made = match form {
                Form::Image => make_image(store, name, Geometry::of(bytes, u64::from(inodes)), roots, owner),
                Form::Directory => make_directory(store, name, (bytes, u64::from(inodes)), roots, owner),
            };
            if made.is_err() {
                // Nothing of it is mounted any more, or the next start removes it.
                let _ = store.remove_half(name, form, roots);
            }
            made.map(Some)
        }
        Order::Open => match store.find(name) {
            None => Err(Failure::new(Code::NoWorkspace, "workspace")),
            Some(Form::Image) => {
                let image = open_image(&store.whole(name, Form::Image), false).at("workspace: image");
                let image = image.map_err(internal)?;
                image::lock(&image, LEFT).map_err(in_use)?;
                opened(image::mount(&image).map_err(internal)?, workspace_via::LOOP).map(Some)
            }
            Some(Form::Directory) => {
                let directory = open_directory(&store.whole(name, Form::Directory)).at("workspace: directory");
                let mount = quota::mount(&directory.map_err(internal)?).map_err(internal)?;
                opened(mount, workspace_via::PROJECT_QUOTA).map(Some)
            }
        },
        Order::Close { keep } => match store.find(name) {
            Some(Form::Image) => close_image(store, name, keep, mount).map(|()| None),
            _ if keep => Ok(None),
            _ => {
                drop(mount);
                remove_directory(store, name, roots).map_err(internal).map(|()| None)
            }
        },
    }
}

fn internal(broken: Broken) -> Failure {
    broken.failure(Code::Internal)
}

fn in_use(broken: Broken) -> Failure {
    let code = if broken.errno == libc::EWOULDBLOCK { Code::WorkspaceInUse } else { Code::Internal };
    Failure::new(code, "workspace")
}

fn full(detail: String) -> Failure {
    Failure::new(Code::LimitReached, "disk space").detail(detail)
}

fn opened(mount: OwnedFd, via: u8) -> Result<Opened, Failure> {
    let (bytes, inodes) = image::measure(mount.as_fd()).map_err(internal)?;
    Ok(Opened { mount, bytes, inodes, via })
}

/// Refuses where the host has not the room for all that is promised. The new one counts already, so that of two at once
/// each sees the other.
fn check_room(store: &Store) -> Result<(), Failure> {
    let (free, promised) = (store.free().map_err(internal)?, store.promised());
    if promised <= free {
        return Ok(());
    }
    let mebibytes = |bytes: u64| bytes >> 20;
    Err(full(format!("{} MiB are free, {} would be promised", mebibytes(free), mebibytes(promised))))
}

/// A new one has its name only once it is whole.
fn finish(store: &Store, name: Name, form: Form) -> Result<(), Failure> {
    fs::rename(store.half(name, form), store.whole(name, form)).at("workspace: name").map_err(internal)?;
    store.sync().map_err(internal)
}

fn make_roots(mount: BorrowedFd<'_>, roots: &[Root], owner: u32) -> Result<(), Failure> {
    let made = roots.iter().try_for_each(|(root, mode)| directory(mount, root, *mode, owner));
    made.at("workspace: roots").map_err(internal)
}

fn make_image(store: &Store, name: Name, size: Geometry, roots: &[Root], owner: u32) -> Result<Opened, Failure> {
    let half = store.half(name, Form::Image);
    let image = open_image(&half, true).at("workspace: image").map_err(internal)?;
    image::lock(&image, Duration::ZERO).map_err(in_use)?;
    image.set_len(size.image_bytes).map_err(|error| full(error.to_string()))?;
    check_room(store)?;
    image::make(&half, &size).map_err(internal)?;
    let mount = image::mount(&image).map_err(internal)?;
    make_roots(mount.as_fd(), roots, owner)?;
    let opened = opened(mount, workspace_via::LOOP)?;
    finish(store, name, Form::Image)?;
    Ok(opened)
}

fn make_directory(
    store: &Store,
    name: Name,
    (bytes, inodes): (u64, u64),
    roots: &[Root],
    owner: u32,
) -> Result<Opened, Failure> {
    let directory = store.make_half_directory(name).at("workspace: directory").map_err(internal)?;
    quota::limit(&directory, name.range, bytes, inodes).map_err(internal)?;
    check_room(store)?;
    make_roots(directory.as_fd(), roots, owner)?;
    finish(store, name, Form::Directory)?;
    opened(quota::mount(&directory).map_err(internal)?, workspace_via::PROJECT_QUOTA)
}

/// Makes a directory that nobody else reaches yet, so that there is nobody to race.
pub fn directory(mount: BorrowedFd<'_>, name: &std::ffi::CStr, mode: u32, owner: u32) -> Result<(), Errno> {
    let dir = mount.as_raw_fd();
    sys::mkdirat(dir, name, mode)?;
    // SAFETY: plain calls on an open directory and a C string.
    let result =
        unsafe { libc::fchmodat(dir, name.as_ptr(), mode, 0) | libc::fchownat(dir, name.as_ptr(), owner, owner, 0) };
    if result < 0 { Err(sys::errno()) } else { Ok(()) }
}

/// Unmounts, by letting go of the last mount, waits until the image is free, and keeps or removes it.
fn close_image(store: &Store, name: Name, keep: bool, mount: Option<OwnedFd>) -> Result<(), Failure> {
    let mut flushed = Ok(());
    if let Some(mount) = mount {
        if keep {
            flushed = image::flush(mount.as_fd());
        } else {
            image::forget(mount.as_fd());
        }
    }
    let path = store.whole(name, Form::Image);
    let image = open_image(&path, false).at("workspace: image").map_err(internal)?;
    image::lock(&image, LET_GO).map_err(in_use)?;
    if keep {
        // A host without room for what it promised has lost writes: that is told once, and the rest is kept.
        return flushed.and(image.sync_all().at("workspace: flush")).map_err(internal);
    }
    fs::remove_file(path).at("workspace: remove").map_err(internal)
}

/// Empties the roots as their owner, then removes them. Renamed first: what is half removed is kept no more.
fn remove_directory(store: &Store, name: Name, roots: &[Root]) -> Result<(), Broken> {
    let gone = store.gone(name);
    match fs::rename(store.whole(name, Form::Directory), &gone) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).at("workspace: name"),
        _ => {}
    }
    let Ok(directory) = open_directory(&gone) else { return Ok(()) };
    for (root, _) in roots {
        match sys::openat(directory.as_raw_fd(), root, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW, 0) {
            Err(libc::ENOENT) => {}
            other => wipe::empty(other.at("workspace: remove")?)?,
        }
    }
    quota::forget(&directory, name.range);
    store.remove_empty(&gone, roots).at("workspace: remove")
}

/// Of a trial: the number of no sandbox's range, so that the project of none is touched.
const TRIAL: Name = Name { id: [0xff; 16], range: 0x00ff_ffff };

/// Makes, mounts and removes a small workspace of each form, to see what this machine can.
pub fn try_forms(store: &Store) -> [Result<(), Broken>; 2] {
    let name = TRIAL;
    let half = store.half(name, Form::Image);
    let image = open_image(&half, true).at("workspace: image").and_then(|image| {
        let geometry = Geometry::of(8 << 20, 64);
        image::lock(&image, Duration::ZERO)?;
        image.set_len(geometry.image_bytes).at("workspace: image")?;
        image::make(&half, &geometry)?;
        image::mount(&image).map(drop)
    });
    let directory = store.make_half_directory(name).at("workspace: directory").and_then(|directory| {
        let tried = quota::limit(&directory, name.range, 8 << 20, 64).and_then(|()| quota::mount(&directory).map(drop));
        quota::forget(&directory, name.range);
        tried
    });
    let removed = |form| store.remove_half(name, form, &[]).at("workspace: remove");
    [image.and(removed(Form::Image)), directory.and(removed(Form::Directory))]
}
