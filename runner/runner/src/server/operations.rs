//! The operations of the protocol page. Each is answered exactly once, at once or when it is done.

use super::Server;
use super::execs::State;
use boxkite_envelope::init::order;
use boxkite_host::cgroup::Usage;
use boxkite_host::disk::Disk;
use boxkite_host::probe;
use boxkite_system::sys;
use boxkite_wire::frames::{
    self, Close, Code, Exec, Failure, Header, NONE, Open, Reader, WorkspaceKind, Writer, kind, list_flags,
};
use std::os::fd::{AsFd, AsRawFd};

impl Server {
    pub(super) fn operation(&mut self, id: u64, header: Header, payload: &[u8]) {
        let request = header.request;
        let result = match header.kind {
            kind::OPEN => self.open(id, request, payload),
            kind::CLOSE => self.close(id, request, payload),
            kind::EXEC => self.exec(id, request, payload),
            kind::ATTACH => self.attach(id, request, payload),
            kind::SIGNAL => self.signal(id, request, payload),
            kind::RESIZE => self.resize(id, request, payload),
            kind::FILE => self.file(id, request, payload),
            kind::LIST => self.list(id, request, payload),
            kind::PROBE => self.probe(id, request, payload),
            kind::COMMIT => self.commit(payload),
            kind::PROGRAMS => self.programs(id, request, payload),
            _ => Err(Failure::new(Code::Unsupported, "operation")),
        };
        if let Err(failure) = result {
            self.refuse(id, request, &failure);
            if failure.code == Code::BadFrame {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.closing = true;
                }
            }
        }
    }

    fn open(&mut self, id: u64, request: u32, payload: &[u8]) -> Result<(), Failure> {
        let mut open = Open::read(payload)?;
        let refuse = |field: &str| Err(Failure::new(Code::InvalidArgument, field));
        match () {
            () if self.ending => return Err(Failure::new(Code::Closing, "runner")),
            () if usize::from(open.root) >= self.setup.makers.len() => return refuse("root"),
            () => self.setup.ceilings.check(&open)?,
        }
        self.setup.ceilings.require(&mut open);
        self.enforceable(&open)?;
        self.open_sandbox(open, id, request)
    }

    fn close(&mut self, id: u64, request: u32, payload: &[u8]) -> Result<(), Failure> {
        let (sandbox, keep) = match Close::read(payload)? {
            Close::Workspace(workspace) => return self.remove_workspace(workspace, id, request),
            Close::Sandbox { id, keep } => (id, keep),
        };
        let known = self.sandboxes.get_mut(&sandbox).filter(|sandbox| !sandbox.blank);
        let known = known.ok_or(Failure::new(Code::UnknownSandbox, "sandbox"))?;
        if keep && known.open.workspace == WorkspaceKind::Tmpfs {
            return Err(Failure::new(Code::InvalidArgument, "keep"));
        }
        known.keep = keep && (known.keep || !known.closing);
        known.closers.push((id, request));
        self.close_sandbox(sandbox);
        Ok(())
    }

    fn exec(&mut self, id: u64, request: u32, payload: &[u8]) -> Result<(), Failure> {
        let exec = Exec::read(payload)?;
        self.begin_exec(id, request, &exec)
    }

    fn attach(&mut self, id: u64, request: u32, payload: &[u8]) -> Result<(), Failure> {
        let mut reader = Reader::new(payload);
        let (exec, what) = (reader.u64()?, reader.u8()?);
        reader.end()?;
        let record = self.execs.get_mut(&exec).ok_or(Failure::new(Code::UnknownExec, "exec"))?;
        if what > 1 {
            return Err(Failure::new(Code::InvalidArgument, "what"));
        }
        if what == 1 {
            return self.attach_input(id, request, exec);
        }
        if record.state == State::Starting {
            record.attachers.push((id, request));
        } else {
            self.attach_output(exec, id, request);
        }
        Ok(())
    }

    fn attach_input(&mut self, id: u64, request: u32, exec: u64) -> Result<(), Failure> {
        let control = self.control_of(exec)?;
        let socket = self.take_socket(id).ok_or(Failure::new(Code::InvalidArgument, "socket"))?;
        if let Some(envelope) = self.envelopes.get(&control).filter(|_| Self::confirm(&socket, request)) {
            // An envelope that is ending closes the socket, which tells the client.
            let _ = sys::send(envelope.control.as_fd(), &[order::STDIN], &[socket.as_raw_fd()]);
        }
        Ok(())
    }

    /// The envelope of a running exec.
    fn control_of(&self, exec: u64) -> Result<u64, Failure> {
        let record = self.execs.get(&exec).ok_or(Failure::new(Code::UnknownExec, "exec"))?;
        match (record.state, record.envelope) {
            (State::Running, Some(envelope)) => Ok(envelope),
            (State::Starting, _) => Err(Failure::new(Code::InvalidArgument, "not started")),
            _ => Err(Failure::new(Code::Ended, "exec")),
        }
    }

    fn signal(&mut self, id: u64, request: u32, payload: &[u8]) -> Result<(), Failure> {
        let mut reader = Reader::new(payload);
        let (exec, signal, target) = (reader.u64()?, reader.u8()?, reader.u8()?);
        reader.end()?;
        let envelope = self.control_of(exec)?;
        if target > 1 || signal == 0 || i32::from(signal) > libc::SIGRTMAX() {
            return Err(Failure::new(Code::InvalidArgument, "signal"));
        }
        if target == 1 {
            self.kill_exec(exec, frames::End::Killed, frames::Cause::Asked);
        } else if let Some(envelope) = self.envelopes.get(&envelope) {
            sys::send(envelope.control.as_fd(), &[order::SIGNAL, signal], &[]).map_err(|errno| match errno {
                libc::EAGAIN => Failure::with(Code::LimitReached, "signals", errno),
                _ => Failure::with(Code::Ended, "exec", errno),
            })?;
        }
        self.done(id, request);
        Ok(())
    }

    fn resize(&mut self, id: u64, request: u32, payload: &[u8]) -> Result<(), Failure> {
        let mut reader = Reader::new(payload);
        let (exec, columns, rows) = (reader.u64()?, reader.u16()?, reader.u16()?);
        reader.end()?;
        let record = self.execs.get(&exec).ok_or(Failure::new(Code::UnknownExec, "exec"))?;
        let terminal = record.terminal().ok_or(Failure::new(Code::InvalidArgument, "terminal"))?;
        let resized = sys::set_window(terminal.as_fd(), columns, rows);
        resized.map_err(|errno| Failure::with(Code::Internal, "terminal size", errno))?;
        self.done(id, request);
        Ok(())
    }

    fn list(&mut self, id: u64, request: u32, payload: &[u8]) -> Result<(), Failure> {
        let with_usage = list_flags(payload)?;
        let shown: Vec<_> = self.sandboxes.values().filter(|sandbox| !sandbox.blank).collect();
        let mut writer = Writer::new(kind::LISTING, request).u32(shown.len() as u32);
        for sandbox in shown {
            let (envelopes, idle) = (sandbox.envelopes.len() as u32, sandbox.idle.len() as u32);
            writer = writer.u64(sandbox.id).u32(envelopes).u32(idle).u8(u8::from(sandbox.closing));
            writer = writer.raw(&sandbox.open.workspace.id().unwrap_or_default());
            let usage = if with_usage { sandbox.group.usage() } else { Usage::default() };
            writer = writer.u64(usage.memory_bytes.unwrap_or(NONE)).u64(usage.cpu_us.unwrap_or(NONE));
            writer = writer.u32(usage.processes.unwrap_or(u32::MAX));
        }
        writer = writer.u32(self.execs.len() as u32);
        for exec in self.execs.values() {
            let [stdout, stderr] = exec.spans();
            writer = writer.u64(exec.id).u64(exec.sandbox).u8(exec.state.number());
            writer = writer.u8(u8::from(exec.consumer.is_some()));
            writer = writer.u64(stdout.0).u64(stdout.1).u64(stderr.0).u64(stderr.1);
        }
        let workspaces = self.setup.disk.iter().flat_map(Disk::ids);
        writer = writer.u32(workspaces.clone().count() as u32);
        writer = workspaces.fold(writer, |writer, workspace| writer.raw(workspace));
        self.answer(id, &writer.finish());
        Ok(())
    }

    fn probe(&mut self, id: u64, request: u32, payload: &[u8]) -> Result<(), Failure> {
        Reader::new(payload).end()?;
        let writer = Writer::new(kind::PROBED, request).u8(self.setup.mode as u8);
        let frame = probe::write(writer, &self.setup.facts).finish();
        self.answer(id, &frame);
        Ok(())
    }

    /// Flow control of an exec that may be gone already, so it has no answer and no error but a broken frame.
    fn commit(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let mut reader = Reader::new(payload);
        let (exec, stdout, stderr, end) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u8()?);
        reader.end()?;
        self.committed(exec, [stdout, stderr], end != 0);
        Ok(())
    }
}
