import { innerIpv4, isPublicIpv4, isPublicIpv6, parseIpv4, parseIpv6 } from './addresses.ts';

/** A connection that somebody wants to open. */
export interface DestinationRequest {
  /** Entries of the list, or the list compiled. */
  readonly allow: DestinationAllowlist | readonly string[];
  /** The text as the client wrote it, not decoded. */
  readonly host: string;
  readonly port: number;
  /** All addresses of the one lookup that the connection will use. */
  readonly resolved: readonly string[];
}

/** Whether a connection may be opened, and why not. */
export interface DestinationVerdict {
  readonly verdict: 'allow' | 'deny';
  readonly reason: string;
}

type Host =
  | { readonly kind: 'name'; readonly text: string }
  | { readonly kind: 'address'; readonly text: string; readonly parts: readonly number[] };

const DEFAULT_PORT = 443;
const LABEL = /^[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?$/;
const LONGEST_NAME = 253;
const LONGEST_LABEL = 63;
/** Names for local use; everything below them, too. */
const LOCAL_NAMES = ['localhost', 'local', 'internal', 'localdomain', 'metadata.goog'];
const SHOWN_ENTRIES = 12;

/** Entries of a list, in a form that is quick to look up. */
export class DestinationAllowlist {
  /** Entries outside the grammar, which match nothing. */
  readonly ignored: readonly string[];
  /** `host:port` of names and addresses, and `*.suffix:port`. */
  readonly #exact = new Set<string>();
  readonly #suffixes = new Set<string>();
  readonly #entries: readonly string[];

  /** @param allow The entries: `name`, `*.suffix`, IPv4 or `[IPv6]`, each with an optional `:port`; without one 443 is meant. */
  constructor(allow: readonly string[]) {
    this.#entries = allow;
    this.ignored = allow.filter((entry) => !this.#add(entry));
  }

  /** Whether an entry names this host and port. */
  matches(host: string, port: number): boolean {
    if (this.#exact.has(`${host}:${port}`)) return true;
    if (this.#suffixes.size === 0 || host.startsWith('[') || host.includes('_')) return false;
    for (let dot = host.indexOf('.'); dot >= 0; dot = host.indexOf('.', dot + 1)) {
      if (this.#suffixes.has(`${host.slice(dot + 1)}:${port}`)) return true;
    }
    return false;
  }

  /** The entries in a few words. */
  summary(): string {
    if (this.#entries.length === 0) return 'the list is empty';
    const shown = this.#entries.slice(0, SHOWN_ENTRIES).join(', ');
    const rest = this.#entries.length - SHOWN_ENTRIES;
    return rest > 0 ? `the list is ${shown} and ${rest} more` : `the list is ${shown}`;
  }

  #add(entry: string): boolean {
    if (typeof entry !== 'string') return false;
    const found = /^(\[[^\]]*\]|[^:]*)(?::([1-9][0-9]{0,4}))?$/.exec(entry);
    const port = Number(found?.[2] ?? DEFAULT_PORT);
    if (found === null || port > 65_535) return false;
    const host = found[1] ?? '';
    const wild = host.startsWith('*.');
    const parsed = parseHost(wild ? host.slice(2) : host);
    if (parsed === undefined || (wild && (parsed.kind !== 'name' || parsed.text.includes('_')))) return false;
    (wild ? this.#suffixes : this.#exact).add(`${parsed.text}:${port}`);
    return true;
  }
}

/**
 * Decides whether a connection to this host and port may be opened, given the addresses that it resolves to. The
 * connection must then go to one of them, without a second lookup. Never throws.
 */
export function judgeDestination(request: DestinationRequest): DestinationVerdict {
  const { host, port, resolved } = request;
  if (!Number.isInteger(port) || port < 1 || port > 65_535) return deny('the port is a whole number from 1 to 65535');
  const parsed = typeof host === 'string' ? parseHost(host) : undefined;
  if (parsed === undefined) {
    return deny('the host is no plain name, no address of four decimal numbers and no IPv6 address in brackets');
  }
  if (parsed.kind === 'name' && isLocalName(parsed.text)) return deny('the name is kept for local use');
  const { allow: given } = request;
  if (!(given instanceof DestinationAllowlist) && !Array.isArray(given)) return deny('the list is no list of entries');
  const allow = given instanceof DestinationAllowlist ? given : new DestinationAllowlist(given);
  if (!allow.matches(parsed.text, port)) {
    return deny(
      `${parsed.text} at port ${port} is not on the list (an entry without a port means 443): ${allow.summary()}`,
    );
  }
  const unfit = unfitAddress(parsed, Array.isArray(resolved) ? resolved : []);
  return unfit === null ? { verdict: 'allow', reason: 'the list names it and it is public' } : deny(unfit);
}

function unfitAddress(host: Host, resolved: readonly string[]): string | null {
  if (resolved.length === 0) return 'the name has no address';
  const addresses = resolved.map(parseAddress);
  const odd = addresses.indexOf(undefined);
  if (odd >= 0) return 'one of the addresses of the lookup is no plain address';
  const hidden = addresses.findIndex((parts) => parts === undefined || !isPublic(parts));
  if (hidden >= 0) return `the name leads to ${resolved[hidden]}, which is no public address`;
  if (host.kind === 'name') return null;
  if (!isPublic(host.parts) || innerIpv4Of(host.parts)) return 'the address is not public, or stands for another one';
  const same = addresses.every((parts) => parts?.join() === host.parts.join());
  return same ? null : 'the lookup gave another address than the one asked for';
}

function isPublic(parts: readonly number[]): boolean {
  return parts.length === 4 ? isPublicIpv4(parts) : isPublicIpv6(parts);
}

function innerIpv4Of(parts: readonly number[]): boolean {
  return parts.length === 8 && innerIpv4(parts) !== undefined;
}

function parseAddress(text: string): readonly number[] | undefined {
  if (typeof text !== 'string') return undefined;
  return text.includes(':') ? parseIpv6(text) : parseIpv4(text);
}

/** The host in lower case, or `undefined` outside the grammar. An IPv6 address gets one spelling. */
function parseHost(host: string): Host | undefined {
  if (host.startsWith('[')) {
    const parts = host.endsWith(']') ? parseIpv6(host.slice(1, -1)) : undefined;
    return parts && { kind: 'address', text: `[${parts.map((part) => part.toString(16)).join(':')}]`, parts };
  }
  if (host.length > LONGEST_NAME || !/^[\0-\x7f]+$/.test(host)) return undefined;
  const text = host.toLowerCase();
  const labels = text.split('.');
  const last = labels.at(-1) ?? '';
  if (/^(?:[0-9]+|0x[0-9a-f]*)$/.test(last)) {
    const parts = parseIpv4(text);
    return parts && { kind: 'address', text, parts };
  }
  const fits = labels.every((label) => label.length <= LONGEST_LABEL && LABEL.test(label));
  if (!fits) return undefined;
  return { kind: 'name', text };
}

function isLocalName(name: string): boolean {
  return !name.includes('.') || LOCAL_NAMES.some((local) => name === local || name.endsWith(`.${local}`));
}

function deny(reason: string): DestinationVerdict {
  return { verdict: 'deny', reason };
}
