//! The workspaces by their names.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::keeper::Root;
use crate::{image, quota};
use boxkite_system::step::{At, Broken};
use boxkite_wire::frames::WorkspaceId;

const WORKSPACES: &str = "workspaces";
/// What a directory is called that is being removed.
const GONE: &str = "dir-gone";

/// What a workspace is on the host's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Image,
    /// With a project quota.
    Directory,
}

impl Form {
    const BOTH: [Self; 2] = [Self::Image, Self::Directory];

    fn whole(self) -> &'static str {
        match self {
            Self::Image => "img",
            Self::Directory => "dir",
        }
    }

    fn half(self) -> &'static str {
        match self {
            Self::Image => "img-new",
            Self::Directory => "dir-new",
        }
    }
}

/// The directory of all workspaces.
pub struct Store {
    workspaces: PathBuf,
    /// What new ones are.
    pub form: Form,
}

/// A workspace by its name on disk: its id, and the number of the range of ids that its files have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    pub id: WorkspaceId,
    pub range: u32,
}

impl Name {
    fn file(self, ending: &str) -> String {
        let id: String = self.id.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{id}-{}.{ending}", self.range)
    }

    /// Reads a name that `file` wrote.
    fn parse(file: &str, ending: &str) -> Option<Self> {
        let (id, range) = file.strip_suffix(ending)?.strip_suffix('.')?.split_once('-')?;
        let mut bytes = WorkspaceId::default();
        if id.len() != 2 * bytes.len() || !id.is_ascii() {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(id.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        let name = Self { id: bytes, range: range.parse().ok()? };
        (name.file(ending) == file && bytes != WorkspaceId::default()).then_some(name)
    }
}

impl Store {
    /// Opens the store of a state directory, which the caller holds, and removes what a killed runner left half-made.
    pub fn open(state: &Path, roots: &[Root]) -> Result<Self, Broken> {
        let workspaces = state.join(WORKSPACES);
        match fs::DirBuilder::new().mode(0o700).create(&workspaces) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && is_private(&workspaces) => {}
            other => other.at("workspaces: directory")?,
        }
        let store = Self { workspaces, form: Form::Image };
        for form in Form::BOTH {
            for name in store.names(form.half()) {
                store.remove_half(name, form, roots).at("workspaces: half-made")?;
            }
        }
        Ok(store)
    }

    fn files(&self) -> impl Iterator<Item = String> {
        let entries = fs::read_dir(&self.workspaces).into_iter().flatten();
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok())
    }

    fn names(&self, ending: &str) -> Vec<Name> {
        self.files().filter_map(|file| Name::parse(&file, ending)).collect()
    }

    /// Every workspace that is kept.
    pub fn kept(&self) -> Vec<Name> {
        Form::BOTH.iter().flat_map(|form| self.names(form.whole())).collect()
    }

    /// Those whose removal was not finished.
    pub fn half_removed(&self) -> Vec<Name> {
        self.names(GONE)
    }

    /// What a kept workspace is.
    pub fn find(&self, name: Name) -> Option<Form> {
        Form::BOTH.into_iter().find(|form| fs::symlink_metadata(self.whole(name, *form)).is_ok())
    }

    /// Where a workspace is, or would be.
    pub fn place(&self, name: Name) -> PathBuf {
        self.whole(name, self.find(name).unwrap_or(self.form))
    }

    pub fn whole(&self, name: Name, form: Form) -> PathBuf {
        self.workspaces.join(name.file(form.whole()))
    }

    pub fn half(&self, name: Name, form: Form) -> PathBuf {
        self.workspaces.join(name.file(form.half()))
    }

    pub fn gone(&self, name: Name) -> PathBuf {
        self.workspaces.join(name.file(GONE))
    }

    pub fn make_half_directory(&self, name: Name) -> io::Result<File> {
        let path = self.half(name, Form::Directory);
        fs::DirBuilder::new().mode(0o755).create(&path)?;
        open_directory(&path)
    }

    /// Removes what nothing has run in yet.
    pub fn remove_half(&self, name: Name, form: Form, roots: &[Root]) -> io::Result<()> {
        let path = self.half(name, form);
        match form {
            Form::Image => fs::remove_file(path),
            Form::Directory => self.remove_empty(&path, roots),
        }
    }

    /// Removes the directory of a workspace whose roots are empty.
    pub fn remove_empty(&self, path: &Path, roots: &[Root]) -> io::Result<()> {
        for (root, _) in roots {
            match fs::remove_dir(path.join(OsStr::from_bytes(root.to_bytes()))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::remove_dir(path)
    }

    /// Writes the names of the directory down.
    pub fn sync(&self) -> Result<(), Broken> {
        File::open(&self.workspaces).and_then(|directory| directory.sync_all()).at("workspaces: sync")
    }

    /// Bytes that are free on the host's disk. Not asked of a workspace: one with a quota shows what its limit leaves.
    pub fn free(&self) -> Result<u64, Broken> {
        let directory = open_directory(&self.workspaces).at("workspaces: directory")?;
        image::free(directory.as_fd())
    }

    /// Bytes that the workspaces may still take of the host's disk, beyond what they have.
    pub fn promised(&self) -> u64 {
        let path = |ending| move |name: Name| (name, self.workspaces.join(name.file(ending)));
        let of = |form: Form| {
            [form.whole(), form.half()]
                .into_iter()
                .flat_map(move |ending| self.names(ending).into_iter().map(path(ending)))
        };
        let images = of(Form::Image).filter_map(|(_, path)| fs::symlink_metadata(path).ok());
        let holes: u64 = images.map(|image| image.size().saturating_sub(image.blocks() * 512)).sum();
        let directories = of(Form::Directory).filter_map(|(name, path)| Some((name, open_directory(&path).ok()?)));
        holes + directories.map(|(name, directory)| quota::left(&directory, name.range)).sum::<u64>()
    }
}

/// Whether it is a directory of the calling user that nobody else can enter.
fn is_private(path: &Path) -> bool {
    // SAFETY: no effect but its result.
    let own = unsafe { libc::geteuid() };
    fs::symlink_metadata(path).is_ok_and(|entry| entry.is_dir() && entry.uid() == own && entry.mode() & 0o077 == 0)
}

/// Opens a directory of ours.
pub fn open_directory(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_DIRECTORY | libc::O_CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Opens an image, `new` or one that is there.
pub fn open_image(path: &Path, new: bool) -> std::io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
    OpenOptions::new().read(true).write(true).create_new(new).mode(0o600).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("boxkite-store-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    const NAME: Name = Name { id: *b"0123456789abcdef", range: 77 };

    #[test]
    fn names_are_read_as_they_are_written_and_nothing_else_is_a_name() {
        let file = NAME.file("img");
        assert_eq!(file, "30313233343536373839616263646566-77.img");
        assert_eq!(Name::parse(&file, "img"), Some(NAME));
        let id = "30313233343536373839616263646566";
        for other in [
            format!("{id}-77.img-new"),
            format!("{id}-077.img"),
            format!("{id}-+7.img"),
            format!("{id}-77.img.img"),
            format!("{id}-4294967296.img"),
            format!("{}-77.img", id.to_uppercase().replace('6', "A")),
            format!("{}-77.img", "0".repeat(32)),
            format!("{}-77.img", "é".repeat(16)),
            "lost+found".into(),
            "-.img".into(),
        ] {
            assert_eq!(Name::parse(&other, "img"), None, "{other}");
        }
    }

    #[test]
    fn what_is_half_made_is_swept_and_nothing_else() {
        let folder = Folder::new("swept");
        fs::DirBuilder::new().mode(0o700).create(folder.0.join(WORKSPACES)).unwrap();
        for file in [NAME.file("img-new"), NAME.file("img"), "mine.new".into()] {
            fs::write(folder.0.join(WORKSPACES).join(file), "").unwrap();
        }
        let store = Store::open(&folder.0, &[]).unwrap();
        assert_eq!(store.kept(), [NAME]);
        assert!(!store.half(NAME, Form::Image).exists() && store.whole(NAME, Form::Image).exists());
        assert!(folder.0.join(WORKSPACES).join("mine.new").exists());
    }

    #[test]
    fn what_images_may_still_take_is_their_holes() {
        let folder = Folder::new("promised");
        let state = Store::open(&folder.0, &[]).unwrap();
        assert_eq!(state.promised(), 0);
        open_image(&state.half(NAME, Form::Image), true).unwrap().set_len(1 << 20).unwrap();
        assert_eq!(state.promised(), 1 << 20);
        fs::write(state.whole(NAME, Form::Image), vec![1; 1 << 20]).unwrap();
        assert!(state.promised() < (1 << 20) + 8192);
        assert_eq!(
            open_image(&state.half(NAME, Form::Image), true).unwrap_err().kind(),
            std::io::ErrorKind::AlreadyExists
        );
    }

    #[test]
    fn a_directory_that_others_can_enter_is_refused() {
        let folder = Folder::new("open");
        fs::create_dir(folder.0.join(WORKSPACES)).unwrap();
        assert_eq!(Store::open(&folder.0, &[]).err().unwrap().step, "workspaces: directory");
    }
}
