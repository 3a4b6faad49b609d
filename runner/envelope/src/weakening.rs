//! Layers that the weakened twin leaves out. In the shipped runner every answer is a constant `false`.

use boxkite_host::cgroup::Availability;

/// Which layers are left out; `none()` in the shipped runner.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weakening {
    #[cfg(feature = "weakened")]
    layers: u32,
}

#[cfg(feature = "weakened")]
const NAMES: [&str; 11] =
    ["mounts", "user", "proc", "net", "pids", "memory", "seccomp", "landlock", "caps", "no_new_privs", "programs"];

/// The layers by their position in `NAMES`.
#[derive(Clone, Copy)]
pub enum Layer {
    Mounts,
    User,
    Proc,
    Net,
    Pids,
    Memory,
    Seccomp,
    Landlock,
    Caps,
    NoNewPrivs,
    /// A list of programs is taken, and none of its fences put up.
    Programs,
}

impl Weakening {
    /// Every layer stands.
    pub const fn none() -> Self {
        Self {
            #[cfg(feature = "weakened")]
            layers: 0,
        }
    }

    /// What the twin leaves out of limits is as if the machine did not have it.
    pub fn of(self, available: Availability) -> Availability {
        Availability {
            memory: available.memory.filter(|_| !self.lacks(Layer::Memory)),
            pids: available.pids.filter(|_| !self.lacks(Layer::Pids)),
            ..available
        }
    }

    /// Whether every layer stands.
    pub const fn is_none(self) -> bool {
        #[cfg(feature = "weakened")]
        return self.layers == 0;
        #[cfg(not(feature = "weakened"))]
        true
    }

    /// Reads a comma-separated list of layer names; the error is the first unknown one.
    #[cfg(feature = "weakened")]
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut layers = 0;
        for name in list.split(',').filter(|name| !name.is_empty()) {
            let position = NAMES.iter().position(|known| *known == name).ok_or_else(|| name.to_owned())?;
            layers |= 1 << position;
        }
        Ok(Self { layers })
    }

    /// Whether `layer` is left out.
    #[cfg(feature = "weakened")]
    pub const fn lacks(self, layer: Layer) -> bool {
        self.layers & (1 << layer as u32) != 0
    }

    /// Whether `layer` is left out: never.
    #[cfg(not(feature = "weakened"))]
    pub const fn lacks(self, _layer: Layer) -> bool {
        false
    }
}
