//! The command line of a runner: `docs/reference/runner-protocol.md`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use boxkite_envelope::RootSource;
use boxkite_host::ceilings::Ceilings;

const MOST_BLANKS: usize = 64;
const OPTIONS: [&str; 13] = [
    "--dir",
    "--agent",
    "--root",
    "--blanks",
    "--idle-seconds",
    "--state",
    "--client-socket",
    "--service-uid",
    "--max-memory-mb",
    "--max-workspace-mb",
    "--max-inodes",
    "--max-pids",
    "--max-cpu-millis",
];

/// What a daemon has beside what every runner has.
pub struct Daemon {
    /// Of root's, the id that its unprivileged processes get.
    pub service_id: Option<u32>,
    pub client_socket: PathBuf,
    /// The command line of supervise.
    pub supervise: Vec<OsString>,
}

/// The command line, checked.
pub struct Arguments {
    pub directory: PathBuf,
    pub agent: PathBuf,
    pub roots: Vec<RootSource>,
    pub blanks: usize,
    pub idle: Duration,
    pub ceilings: Ceilings,
    pub state: Option<PathBuf>,
    pub daemon: Option<Daemon>,
}

impl Arguments {
    /// Reads the command line; the error is for people.
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let (mut directory, mut agent, mut roots) = (None, None, Vec::new());
        let (mut blanks, mut idle, mut ceilings) = (0, 60, Ceilings::default());
        let (mut state, mut client_socket, mut service_id, mut supervise) = (None, None, None, None);
        let mut args = args;
        while let Some(name) = args.next() {
            let name = name.to_string_lossy().into_owned();
            if name == "--" {
                supervise = Some(args.by_ref().collect());
                break;
            }
            let known = OPTIONS.contains(&name.as_str());
            let value = args.next().filter(|_| known).ok_or(format!("unknown or without a value: {name}"))?;
            let number = || value.to_str().and_then(|text| text.parse::<u64>().ok()).ok_or(format!("{name}: a number"));
            match name.as_str() {
                "--dir" => directory = Some(PathBuf::from(value)),
                "--agent" => agent = Some(PathBuf::from(value)),
                "--root" if value == "host" => roots.push(RootSource::Host),
                "--root" => roots.push(RootSource::Directory(PathBuf::from(value))),
                "--blanks" => blanks = number()? as usize,
                "--max-memory-mb" => ceilings.memory_bytes = Some(number()?.saturating_mul(1 << 20)),
                "--max-workspace-mb" => ceilings.workspace_bytes = Some(number()?.saturating_mul(1 << 20)),
                "--max-inodes" => ceilings.inodes = Some(number()?),
                "--max-pids" => ceilings.pids = Some(number()?),
                "--max-cpu-millis" => ceilings.cpu_millis = Some(number()?),
                "--state" => state = Some(PathBuf::from(value)),
                "--client-socket" => client_socket = Some(PathBuf::from(value)),
                "--service-uid" => {
                    service_id = Some(u32::try_from(number()?).map_err(|_| "--service-uid: a user id")?);
                }
                _ => idle = number()?,
            }
        }
        let daemon = match (supervise, client_socket) {
            (Some(supervise), Some(client_socket)) if state.is_some() => {
                Some(Daemon { service_id, client_socket, supervise })
            }
            (None, None) if service_id.is_none() => None,
            _ => return Err("--client-socket, --service-uid and -- belong together, and with --state".into()),
        };
        let relative = roots.iter().any(|root| matches!(root, RootSource::Directory(path) if !path.is_absolute()));
        match () {
            () if roots.is_empty() => Err("--root is missing".into()),
            () if relative => Err("--root: an absolute directory".into()),
            () if blanks > MOST_BLANKS => Err(format!("--blanks: at most {MOST_BLANKS}")),
            () => Ok(Self {
                directory: directory.ok_or("--dir is missing")?,
                agent: agent.ok_or("--agent is missing")?,
                roots,
                blanks,
                idle: Duration::from_secs(idle),
                ceilings,
                state,
                daemon,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        let common = "--dir /d --agent /a --root host ";
        Arguments::parse(format!("{common}{line}").split_whitespace().map(OsString::from))
    }

    #[test]
    fn a_daemon_has_all_that_makes_one() {
        let daemon =
            parse("--state /s --client-socket /c --service-uid 7 -- --socket /x --dir /y").unwrap().daemon.unwrap();
        assert_eq!((daemon.service_id, daemon.client_socket), (Some(7), PathBuf::from("/c")));
        assert_eq!(daemon.supervise, ["--socket", "/x", "--dir", "/y"]);
        assert!(parse("--state /s --client-socket /c -- x").unwrap().daemon.unwrap().service_id.is_none());
        assert!(parse("--state /s").unwrap().daemon.is_none() && parse("").unwrap().daemon.is_none());
        for half in ["--client-socket /c", "--state /s -- x", "--client-socket /c -- x", "--service-uid 7", "--"] {
            assert!(parse(half).is_err(), "{half}");
        }
    }

    #[test]
    fn ceilings_are_read_in_their_units() {
        let line = "--max-memory-mb 2 --max-workspace-mb 3 --max-inodes 4 --max-pids 5 --max-cpu-millis 6";
        let expected = Ceilings {
            memory_bytes: Some(2 << 20),
            workspace_bytes: Some(3 << 20),
            inodes: Some(4),
            pids: Some(5),
            cpu_millis: Some(6),
        };
        assert_eq!(parse(line).unwrap().ceilings, expected);
        assert_eq!(parse("").unwrap().ceilings, Ceilings::default());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, named) in [
            ("--nonsense 1", "--nonsense"),
            ("--blanks", "--blanks"),
            ("--blanks x", "--blanks"),
            ("--blanks 65", "--blanks"),
            ("--root relative", "--root"),
            ("--max-pids many", "--max-pids"),
            ("--service-uid 4294967296", "--service-uid"),
        ] {
            let message = parse(line).err().unwrap();
            assert!(message.contains(named), "{line}: {message}");
        }
    }
}
