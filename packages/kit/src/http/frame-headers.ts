/** Headers of every answer: no page of another origin shows it. */
export const noFrames = [
  ['x-frame-options', 'DENY'],
  ['content-security-policy', "frame-ancestors 'none'"],
] as const;
