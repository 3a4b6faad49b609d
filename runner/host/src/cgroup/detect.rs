//! Finds the hierarchies and makes the instance directory in each that serves us.

use super::lock::Lock;
use super::{Cgroups, Serves, Tree, Via, make_dir, place, v1};
use std::path::{Path, PathBuf};

/// A mounted hierarchy and the runner's own group in it.
#[derive(Debug, PartialEq, Eq)]
pub struct Hierarchy {
    pub via: Via,
    /// Controllers of version 1, empty for version 2.
    pub controllers: Vec<String>,
    pub mount: PathBuf,
    pub own: PathBuf,
}

/// The controls of version 1 and the file that proves each.
const V1_CONTROLS: [(&str, &str); 4] = [
    ("memory", "memory.limit_in_bytes"),
    ("pids", "pids.max"),
    ("cpu", "cpu.cfs_quota_us"),
    ("cpuacct", "cpuacct.usage"),
];

pub fn detect(instance: &str, self_cgroup: &str, mounts: &str) -> Cgroups {
    let mut out = Cgroups {
        trees: Vec::new(),
        bases: Vec::new(),
        instance: instance.to_string(),
        moved: None,
        reasons: Vec::new(),
        _locks: Vec::new(),
    };
    if instance.is_empty() || !instance.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        out.reasons.push(format!("{instance:?} can't name an instance"));
        return out;
    }
    let name = format!("boxkite-{instance}");
    let (found, reasons) = hierarchies(self_cgroup, mounts);
    out.reasons.extend(reasons);
    // A sweeping runner waits for these, so it never finds an instance directory that is not locked yet.
    let above = |hierarchy: &Hierarchy| {
        let (own, mount, via) = (hierarchy.own.clone(), hierarchy.mount.clone(), hierarchy.via);
        let most = if via == Via::V1 { 1 } else { usize::MAX };
        let places = own.ancestors().take_while(|dir| dir.starts_with(&mount)).take(most).map(Path::to_path_buf);
        places.collect::<Vec<_>>()
    };
    let guards: Vec<Option<Lock>> = found.iter().flat_map(above).map(|place| Lock::wait(&place)).collect();
    for hierarchy in found.iter().filter(|hierarchy| hierarchy.via == Via::V1) {
        use_v1(&mut out, hierarchy, &name);
    }
    if let Some(hierarchy) = found.iter().find(|hierarchy| hierarchy.via == Via::V2) {
        use_v2(&mut out, hierarchy, &name);
    }
    for tree in std::mem::take(&mut out.trees) {
        match Lock::now(&tree.dir) {
            Some(lock) => {
                out._locks.push(lock);
                out.trees.push(tree);
            }
            // Without it a later runner would take this one for dead.
            None => {
                let _ = super::remove_dirs([&tree.dir].into_iter());
                out.reasons.push(format!("{}: somebody else has locked it", tree.dir.display()));
            }
        }
    }
    drop(guards);
    let have = out.available();
    for (what, via) in [("memory", have.memory), ("pids", have.pids), ("cpu", have.cpu), ("cpu time", have.cpu_time)] {
        if via.is_none() && !out.reasons.iter().any(|reason| reason.starts_with(what)) {
            out.reasons.push(format!("{what}: no control group hierarchy here can be used for it"));
        }
    }
    out
}

fn use_v1(out: &mut Cgroups, hierarchy: &Hierarchy, name: &str) {
    let wanted: Vec<&(&str, &str)> =
        V1_CONTROLS.iter().filter(|(control, _)| hierarchy.controllers.iter().any(|has| has == control)).collect();
    if wanted.is_empty() {
        return;
    }
    out.bases.push(hierarchy.own.clone());
    let dir = hierarchy.own.join(name);
    let names = wanted.iter().map(|(control, _)| *control).collect::<Vec<_>>().join(", ");
    let made =
        make_dir(&dir).and_then(|()| if names.contains("memory") { v1::make_hierarchical(&dir) } else { Ok(()) });
    if let Err(error) = made {
        out.reasons.push(format!("{names}: {error}"));
        // Nothing of ours is in the directory; where it was not made there is nothing to remove.
        if error.errno != libc::EEXIST {
            let _ = super::remove_dirs([dir].iter());
        }
        return;
    }
    let has = |control: &str| wanted.iter().any(|(name, file)| *name == control && dir.join(file).exists());
    let serves =
        Serves { via: Via::V1, memory: has("memory"), pids: has("pids"), cpu: has("cpu"), cpu_time: has("cpuacct") };
    out.trees.push(Tree { serves, dir });
}

fn use_v2(out: &mut Cgroups, hierarchy: &Hierarchy, name: &str) {
    let above = hierarchy.own.ancestors().take_while(|dir| dir.starts_with(&hierarchy.mount));
    out.bases.extend(above.map(Path::to_path_buf));
    let first = out.available();
    if first.memory.is_some() && first.pids.is_some() && first.cpu_time.is_some() {
        return;
    }
    let place = match place::find(&hierarchy.own, &hierarchy.mount, name) {
        Ok(place) => place,
        Err(reasons) => {
            out.reasons.extend(reasons.into_iter().map(|reason| format!("version 2: {reason}")));
            return;
        }
    };
    let has = |control: &str| place.controllers.contains(&control);
    let serves = Serves {
        via: Via::V2,
        memory: first.memory.is_none() && has("memory"),
        pids: first.pids.is_none() && has("pids"),
        cpu: first.cpu.is_none() && has("cpu"),
        cpu_time: first.cpu_time.is_none() && place.dir.join("cpu.stat").exists(),
    };
    out.trees.push(Tree { serves, dir: place.dir });
    out.moved = place.moved;
}

/// All mounted hierarchies in which the runner's own group is reachable; the others with a reason.
pub fn hierarchies(self_cgroup: &str, mounts: &str) -> (Vec<Hierarchy>, Vec<String>) {
    let (mut found, mut reasons): (Vec<Hierarchy>, Vec<String>) = (Vec::new(), Vec::new());
    for line in mounts.lines() {
        let Some(mount) = parse_mount(line) else { continue };
        let Some(path) = own_path(self_cgroup, &mount) else { continue };
        match below(&mount.root, &path) {
            Some(rest) => {
                let own = if rest.is_empty() { mount.at.clone() } else { mount.at.join(rest) };
                let again = found.iter().any(|other| other.via == mount.via && other.controllers == mount.controllers);
                if !again {
                    found.push(Hierarchy { via: mount.via, controllers: mount.controllers, mount: mount.at, own });
                }
            }
            None => reasons.push(format!(
                "version {}: the runner's own group {path} is outside of what is mounted at {}",
                if mount.via == Via::V1 { 1 } else { 2 },
                mount.at.display(),
            )),
        }
    }
    (found, reasons)
}

struct Mount {
    via: Via,
    controllers: Vec<String>,
    root: String,
    at: PathBuf,
}

/// A line of mountinfo: `id parent major:minor root point options [tags] - type source superoptions`.
/// A point with an escaped character keeps it, does not exist so, and is reported as such.
fn parse_mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, at) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let via = match right.next()? {
        "cgroup" => Via::V1,
        "cgroup2" => Via::V2,
        _ => return None,
    };
    let options = right.nth(1)?;
    let controllers = match via {
        Via::V1 => options.split(',').filter(|word| !word.is_empty()).map(str::to_string).collect(),
        Via::V2 => Vec::new(),
    };
    Some(Mount { via, controllers, root: root.to_string(), at: at.into() })
}

/// The runner's path in the hierarchy of `mount`. Lines are `id:controllers:path`; version 2 has no controllers.
fn own_path(self_cgroup: &str, mount: &Mount) -> Option<String> {
    self_cgroup.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let fits = match mount.via {
            Via::V2 => id == "0" && controllers.is_empty(),
            Via::V1 => {
                controllers.split(',').any(|name| !name.is_empty() && mount.controllers.iter().any(|has| has == name))
            }
        };
        fits.then(|| path.to_string())
    })
}

/// `path` relative to the mounted `root`; none if it lies outside (a path with `..` always does).
fn below<'a>(root: &str, path: &'a str) -> Option<&'a str> {
    if path.split('/').any(|part| part == "..") || root.split('/').any(|part| part == "..") {
        return None;
    }
    let rest = path.strip_prefix(root.trim_end_matches('/'))?;
    if rest.is_empty() || rest.starts_with('/') { Some(rest.trim_start_matches('/')) } else { None }
}
