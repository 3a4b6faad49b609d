//! The command line: `docs/reference/supervise-protocol.md`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The most listeners, of both kinds together.
const MOST_LISTENERS: usize = 16;
const MOST_DIGITS: usize = 64;

/// Where to listen.
#[derive(Debug, PartialEq, Eq)]
pub enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// The command line, checked.
#[derive(Debug)]
pub struct Arguments {
    pub listeners: Vec<Address>,
    pub instance: String,
    pub home: PathBuf,
    /// Node and its arguments.
    pub command: Vec<OsString>,
}

impl Arguments {
    /// Reads the command line; the error is for people.
    pub fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let (mut listeners, mut instance, mut home) = (Vec::new(), None, None);
        let mut divided = false;
        while let Some(name) = args.next() {
            let name = name.to_string_lossy().into_owned();
            if name == "--" {
                divided = true;
                break;
            }
            let known = ["--socket", "--tcp", "--instance", "--home"].contains(&name.as_str());
            let value = args.next().filter(|_| known).ok_or(format!("unknown or without a value: {name}"))?;
            match name.as_str() {
                "--socket" => listeners.push(Address::Unix(value.into())),
                "--tcp" => listeners.push(Address::Tcp(tcp(&value)?)),
                "--instance" => instance = Some(hex(&value)?),
                _ => home = Some(PathBuf::from(value)),
            }
        }
        let command: Vec<OsString> = args.collect();
        let home = home.ok_or("--home is missing")?;
        let relative = listeners.iter().any(|at| matches!(at, Address::Unix(path) if !path.is_absolute()));
        match () {
            () if !divided || command.len() < 2 => Err("-- NODE SCRIPT is missing".into()),
            () if !command[0].as_encoded_bytes().starts_with(b"/") => Err("NODE: an absolute path".into()),
            () if listeners.is_empty() => Err("--socket or --tcp is missing".into()),
            () if listeners.len() > MOST_LISTENERS => Err(format!("at most {MOST_LISTENERS} listeners")),
            () if relative => Err("--socket: an absolute path".into()),
            () if !home.is_absolute() => Err("--home: an absolute directory".into()),
            () => Ok(Self { listeners, instance: instance.ok_or("--instance is missing")?, home, command }),
        }
    }
}

fn tcp(value: &OsString) -> Result<SocketAddr, String> {
    let address = value.to_str().and_then(|text| text.parse().ok());
    address.ok_or(format!("--tcp {}: an IP address and a port", value.to_string_lossy()))
}

fn hex(value: &OsString) -> Result<String, String> {
    let text = value.to_str().unwrap_or_default();
    let fits = (1..=MOST_DIGITS).contains(&text.len());
    let digits = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if fits && digits { Ok(text.into()) } else { Err(format!("--instance: 1 to {MOST_DIGITS} digits of 0-9a-f")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn listeners_keep_their_order_and_what_follows_the_division_is_nodes() {
        let read =
            parse("--tcp [::1]:80 --socket /s --tcp 127.0.0.1:0 --instance 0af --home /h -- /n s --tcp x").unwrap();
        let tcp = |text: &str| Address::Tcp(text.parse().unwrap());
        assert_eq!(read.listeners, [tcp("[::1]:80"), Address::Unix("/s".into()), tcp("127.0.0.1:0")]);
        assert_eq!((read.instance.as_str(), read.home.to_str()), ("0af", Some("/h")));
        assert_eq!(read.command, ["/n", "s", "--tcp", "x"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("", "--home"),
            ("--socket", "--socket"),
            ("--nonsense 1", "--nonsense"),
            ("--socket /s --instance 0 --home /h", "NODE SCRIPT"),
            ("--socket /s --instance 0 --home /h -- /n", "NODE SCRIPT"),
            ("--socket /s --instance 0 --home /h -- node s", "NODE"),
            ("--socket s --instance 0 --home /h -- /n s", "--socket"),
            ("--socket /s --instance 0 --home h -- /n s", "--home"),
            ("--socket /s --home /h -- /n s", "--instance"),
            ("--socket /s --instance 0G --home /h -- /n s", "--instance"),
            ("--tcp localhost:80 --instance 0 --home /h -- /n s", "--tcp"),
            ("--instance 0 --home /h -- /n s", "--socket or --tcp"),
        ];
        for (line, named) in cases {
            let message = parse(line).unwrap_err();
            assert!(message.contains(named), "{line}: {message}");
        }
        assert!(parse(&format!("--instance {} --home /h -- /n s", "0".repeat(65))).is_err());
        assert!(parse(&format!("{} --instance 0 --home /h -- /n s", "--socket /s ".repeat(17))).is_err());
    }
}
