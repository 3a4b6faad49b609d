/** A failure that a person can act on: what is wrong and what to do. Shown without a stack. */
export class DemoFailure extends Error {
  override readonly name = 'DemoFailure';
  /** What to do next: a command or one sentence. */
  readonly hint: string;

  constructor(message: string, hint: string, options?: ErrorOptions) {
    super(message, options);
    this.hint = hint;
  }
}
