//! A list becomes files.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::libraries::{Libraries, Missing};
use crate::names::{self, path_of, resolve};
use crate::script::{self, Script};
use crate::{MOST_FILES, Reason, Refusal, bytes_of, elf, files, interpreters, multi_call};

/// The files of a list, as real paths in the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Programs, the interpreters of scripts among them, and loaders: what execve opens.
    pub executables: Vec<Vec<u8>>,
    /// What is only mapped.
    pub libraries: Vec<Vec<u8>>,
    /// How many of the first are programs.
    pub programs: usize,
    /// Names that no file of the root has.
    pub missing: Vec<Vec<u8>>,
    /// A program of the root that is not among them; none where all are.
    pub unlisted: Option<Vec<u8>>,
}

/// Always executable, whatever the list says: commands are given to it as text.
const SHELL: &[u8] = b"sh";

/// The plan of a list for the root that is the process's own.
pub fn plan(list: &[&[u8]]) -> Result<Plan, Refusal> {
    let mut plan = Plan::default();
    let mut programs: Vec<(&[u8], PathBuf)> = Vec::new();
    for name in [SHELL].into_iter().chain(list.iter().copied()) {
        match resolve(name).map_err(|reason| Refusal::new(reason, name))? {
            Some(path) if programs.iter().all(|(_, known)| *known != path) => programs.push((name, path)),
            None if name != SHELL && !plan.missing.iter().any(|known| known == name) => {
                plan.missing.push(name.to_vec())
            }
            _ => {}
        }
    }
    let listed: HashSet<PathBuf> = programs.iter().map(|(_, path)| path.clone()).collect();
    let mut planning = Planning { libraries: Libraries::new(), code: HashSet::new(), loaders: HashSet::new() };
    for (name, path) in &programs {
        planning.program(name, path, &listed)?;
    }
    let Planning { mut code, loaders, .. } = planning;
    let executables: HashSet<PathBuf> = listed.union(&loaders).cloned().collect();
    if executables.len() + code.len() >= MOST_FILES {
        return Err(Refusal::new(Reason::TooMany, b""));
    }
    code.retain(|path| !executables.contains(path));
    plan.programs = listed.len();
    plan.unlisted = unlisted(&executables);
    plan.executables = sorted(executables);
    plan.libraries = sorted(code);
    Ok(plan)
}

fn sorted(paths: HashSet<PathBuf>) -> Vec<Vec<u8>> {
    let mut paths: Vec<Vec<u8>> = paths.into_iter().map(bytes_of).collect();
    paths.sort_unstable();
    paths
}

struct Planning {
    libraries: Libraries,
    code: HashSet<PathBuf>,
    loaders: HashSet<PathBuf>,
}

impl Planning {
    /// Adds what one program needs.
    fn program(&mut self, name: &[u8], path: &Path, listed: &HashSet<PathBuf>) -> Result<(), Refusal> {
        let refuse = |reason| Refusal::new(reason, name);
        let file = files::open(path).map_err(|_| refuse(Reason::NotAProgram))?;
        let head = files::beginning(&file, 4).ok_or_else(|| refuse(Reason::NotAProgram))?;
        if !elf::is_elf(&head) {
            let script = script::read(&file).ok_or_else(|| refuse(Reason::NotAProgram))?;
            return check_script(&script, listed).map_err(|(reason, other)| refuse(reason).because_of(other));
        }
        if multi_call::is_one(path, &file) {
            return Err(refuse(Reason::MultiCall));
        }
        let elf = self.libraries.elf(path).ok_or_else(|| refuse(Reason::NotAProgram))?;
        if let Some(interpreter) = elf.interpreter.clone() {
            let real = fs::canonicalize(path_of(&interpreter)).ok().filter(|real| !names::is_replaceable(real));
            let loader = real.ok_or_else(|| refuse(Reason::LibraryMissing).because_of(interpreter))?;
            self.loaders.insert(loader);
        }
        let missing = |Missing(library)| refuse(Reason::LibraryMissing).because_of(library);
        self.libraries.follow(path, &mut self.code, MOST_FILES).map_err(missing)?;
        for module in interpreters::modules(path) {
            if self.code.len() < MOST_FILES && self.code.insert(module.clone()) {
                // One whose own library is not installed can't be imported, with this list or without one.
                let _ = self.libraries.follow(&module, &mut self.code, MOST_FILES);
            }
        }
        Ok(())
    }
}

/// A script runs its interpreter, which must be on the list itself.
fn check_script(script: &Script, listed: &HashSet<PathBuf>) -> Result<(), (Reason, Vec<u8>)> {
    let Script::Of { interpreter, name } = script else { return Ok(()) };
    let is_listed = |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| listed.contains(path));
    if !is_listed(&fs::canonicalize(path_of(interpreter)).ok()) {
        return Err((Reason::InterpreterNotListed, interpreter.clone()));
    }
    match name {
        Some(name) if !is_listed(&resolve(name).ok().flatten()) => Err((Reason::InterpreterNotListed, name.clone())),
        _ => Ok(()),
    }
}

/// Something to try that must be refused: a program that does nothing, where there is one.
fn unlisted(executables: &HashSet<PathBuf>) -> Option<Vec<u8>> {
    let harmless = ["/usr/bin/true", "/bin/true"].map(PathBuf::from).into_iter();
    let real = |path: PathBuf| fs::canonicalize(path).ok();
    let is_program = |path: &PathBuf| {
        let head = files::open(path).ok().and_then(|file| files::beginning(&file, 4));
        files::is_executable(path) && head.is_some_and(|head| elf::is_elf(&head))
    };
    let mut candidates = harmless.chain(names::all()).filter_map(real);
    candidates
        .find(|path| !executables.contains(path) && is_program(path) && !names::is_replaceable(path))
        .map(bytes_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(list: &[&[u8]]) -> (Reason, Vec<u8>) {
        let refusal = plan(list).unwrap_err();
        (refusal.reason, refusal.program)
    }

    #[test]
    fn the_shell_its_loader_and_what_is_listed_are_executable() {
        let plan = plan(&[b"ls", b"cat", b"cd", b"/usr/bin/no-such-program", b"cat"]).unwrap();
        assert_eq!(plan.programs, 3);
        assert_eq!(plan.missing, [&b"cd"[..], b"/usr/bin/no-such-program"]);
        assert!(plan.executables.len() >= 4, "{:?}", plan.executables);
        assert!(plan.executables.iter().all(|path| fs::canonicalize(path_of(path)).unwrap() == path_of(path)));
        assert!(plan.libraries.iter().any(|path| path.windows(6).any(|part| part == b"libc.s")));
        assert!(plan.unlisted.is_some());
        assert!(!plan.executables.contains(&plan.unlisted.unwrap()));
    }

    #[test]
    fn what_can_not_be_enforced_is_refused_by_name() {
        assert_eq!(refused(&[b"ls", b"/tmp/x"]), (Reason::WritableRoot, b"/tmp/x".to_vec()));
        assert_eq!(refused(&[b"./x"]), (Reason::RelativePath, b"./x".to_vec()));
        assert_eq!(refused(&[b"/etc/passwd"]), (Reason::NotAProgram, b"/etc/passwd".to_vec()));
        if Path::new("/usr/bin/ldd").exists() {
            let refusal = plan(&[b"ldd"]).unwrap_err();
            assert_eq!(refusal.reason, Reason::InterpreterNotListed);
            assert!(refusal.other.ends_with(b"bash"));
            assert!(plan(&[b"ldd", b"bash"]).is_ok());
        }
    }
}
