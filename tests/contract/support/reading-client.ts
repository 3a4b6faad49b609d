/** A client at a runner's socket that starts one command after another and commits what it reads, until it is killed. */
import { commitPayload, connectTo, execPayload, frame, frames, TYPE } from '@boxkite/testing';

const [path = '', sandbox = '0', program = ''] = process.argv.slice(2);

for (;;) {
  const socket = await connectTo(path);
  socket.write(
    frame(
      TYPE.exec,
      1,
      execPayload(BigInt(sandbox), ['/usr/bin/python3', '-I', '-S', '-c', program], { overflow: 'block' }),
    ),
  );
  let exec = 0n;
  for await (const one of frames(socket)) {
    if (one.type === TYPE.started) {
      exec = one.payload.readBigUInt64LE(0);
      process.stdout.write('.');
    } else if (one.type === TYPE.output) {
      const end = one.payload.readBigUInt64LE(16) + BigInt(one.payload.length - 24);
      socket.write(frame(TYPE.commit, 2, commitPayload(exec, end, 0n, false)));
    } else if (one.type === TYPE.ended) {
      socket.write(frame(TYPE.commit, 3, commitPayload(exec, 0n, 0n, true)));
      break;
    }
  }
}
