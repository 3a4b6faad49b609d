/**
 * What the server and the sidecar have in common over HTTP: listening sockets and the process that serves them, the shape of
 * errors, limits and deadlines of requests, and the routes of one sandbox (commands, their output, files), which each of them
 * puts below its own path.
 */
export { holding } from './http/answer-limits.ts';
export { addBasics, errorSender, type RequestPart } from './http/basics.ts';
export { hasManyContainers } from './http/body-limits.ts';
export { sizes, times } from './http/deadlines.ts';
export { noFrames } from './http/frame-headers.ts';
export { sendList } from './http/json-list.ts';
export { type Listener, type Listening, listen, type Patience } from './http/listen.ts';
export { createLogger } from './http/logger.ts';
export { etagOf, preconditionOf } from './http/preconditions.ts';
export { fileConditions, type RequestHeader, requestHeaders } from './http/request-headers.ts';
export { clientSignal, IdleTimer, write } from './http/streams.ts';
export { attachRoutes } from './routes/attach.ts';
export type { SandboxContext, SandboxRoutes } from './routes/context.ts';
export { execsOf, noNetwork, processOf, processRequest, processStatus, text } from './routes/exec-json.ts';
export { execControlRoutes, execInputRoutes, execRoutes, runRoutes } from './routes/execs.ts';
export { byteRange, fileInfoHeader } from './routes/file-json.ts';
export { fileRoutes, textFileRoutes } from './routes/files.ts';
export { outputRoutes } from './routes/output.ts';
export { transferRoutes } from './routes/transfers.ts';
export { die, exitStatusOf, runService, type Service, unusableStatus } from './service-process.ts';
