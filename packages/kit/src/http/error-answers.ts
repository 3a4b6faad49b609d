/** Every failure in the one shape of errors: what a caller may know of it, and nothing else. */
import {
  BoxkiteError,
  BoxkiteFailure,
  type ErrorBody,
  type ErrorCode,
  errorRegistry,
  isErrorCode,
} from '@boxkite/protocol';

/** An answer that is not a success. */
export interface ErrorAnswer {
  readonly status: number;
  readonly body: ErrorBody;
}

const RATE_LIMITED = 429;
/** Of what was asked for and is not to be had here: no fault that anybody would look for in a log, or may fill one with. */
const REFUSALS: ReadonlySet<string> = new Set<ErrorCode>([
  'unsupported',
  'isolation_unavailable',
  'no_space',
  'not_configured',
]);

/** What Fastify and Node say about a request that could not be read. */
const READING: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [
    'unsupported_media_type',
    'the content type of the body is not one that this route takes',
  ],
  FST_ERR_CTP_BODY_TOO_LARGE: ['payload_too_large', 'the body is larger than this route takes'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['bad_request', 'the body is not as long as Content-Length says'],
  FST_ERR_CTP_EMPTY_JSON_BODY: ['bad_request', 'the body is empty'],
  FST_ERR_CTP_INVALID_JSON_BODY: ['bad_request', 'the body is not valid JSON'],
  FST_ERR_BAD_URL: ['bad_request', 'the URL is not valid'],
  FST_ERR_MAX_PARAM_LENGTH: ['bad_request', 'a part of the URL is too long'],
  HPE_HEADER_OVERFLOW: ['headers_too_large', 'the headers are larger than 32 KiB'],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'the request did not arrive in time'],
};

/** The answer to a failure. One that is not of the registry is reported, and says no more than that. */
export function errorAnswer(error: unknown, report: (error: unknown) => void): ErrorAnswer {
  if (error instanceof BoxkiteFailure) {
    const status = isErrorCode(error.code) ? errorRegistry[error.code].status : errorRegistry.internal.status;
    if (status >= errorRegistry.internal.status && !REFUSALS.has(error.code)) report(error);
    return { status, body: nested(status, error.toJSON()) };
  }
  const known = readingFailure(error);
  if (known !== null) return errorAnswer(known, report);
  report(error);
  return errorAnswer(new BoxkiteError('internal', 'something went wrong in boxkite'), () => undefined);
}

/** What can be said about a request that could not be read; `null` for other failures. */
export function readingFailure(error: unknown): BoxkiteError | null {
  // Node's words for a connection that ended before the body did; of other connections it says something else.
  if (error instanceof Error && error.message === 'aborted' && 'code' in error && error.code === 'ECONNRESET')
    return new BoxkiteError('aborted', 'the request was cut off', { cause: error });
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
  const known = READING[code] ?? (code.startsWith('HPE_') ? MALFORMED : undefined);
  if (known === undefined) return null;
  const [name, message] = known;
  return new BoxkiteError(name, message, { cause: error });
}

const MALFORMED = ['bad_request', 'the request is not valid HTTP/1.1'] as const satisfies readonly [ErrorCode, string];

/** Some clients of the reference read limits below `detail`. */
function nested(status: number, body: ErrorBody): ErrorBody {
  if (status !== RATE_LIMITED) return body;
  const { code, message } = body.error;
  return Object.assign({ detail: { error: { code, message } } }, body);
}
