/** Decides whether an SPDX licence expression can be satisfied by a list of accepted licences. */

/** `/` is the separator of crates from before SPDX expressions; it means OR. */
function tokens(expression: string): string[] {
  return expression.replaceAll('/', ' OR ').match(/\(|\)|[^\s()]+/g) ?? [];
}

/**
 * True when one way to read the expression uses accepted licences alone. `X WITH Y` is accepted only as that whole
 * text. A malformed expression is not accepted.
 */
export function isAccepted(expression: string, accepted: ReadonlySet<string>): boolean {
  const rest = tokens(expression);

  function operand(): boolean {
    const token = rest.shift();
    if (token === undefined || token === ')' || token === 'AND' || token === 'OR' || token === 'WITH') {
      throw new SyntaxError(`unexpected ${token ?? 'end'}`);
    }
    if (token === '(') {
      const inner = either();
      if (rest.shift() !== ')') throw new SyntaxError('missing )');
      return inner;
    }
    if (rest[0] !== 'WITH') return accepted.has(token);
    rest.shift();
    return accepted.has(`${token} WITH ${rest.shift() ?? ''}`);
  }

  function both(): boolean {
    let result = operand();
    while (rest[0] === 'AND') {
      rest.shift();
      const right = operand();
      result = result && right;
    }
    return result;
  }

  function either(): boolean {
    let result = both();
    while (rest[0] === 'OR') {
      rest.shift();
      const right = both();
      result = result || right;
    }
    return result;
  }

  try {
    return either() && rest.length === 0;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}
