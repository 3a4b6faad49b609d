/** The measured side's sandboxes: at the runner's own socket, and as the SDK makes them. */
import type { ExecRecord, ExecRequest, SandboxPort, SandboxProvider, SandboxSpec } from '@boxkite/protocol';
import { startRunner, type TestRunner, type TestSandbox } from '@boxkite/testing';
import { openProduct } from '../../tools/demo/providers.ts';

/** Calls with sandboxes of a runner that ends afterwards. */
export async function withRunner<Result>(
  count: number,
  use: (sandboxes: readonly TestSandbox[], runner: TestRunner) => Promise<Result>,
): Promise<Result> {
  await using runner = await startRunner();
  const sandboxes: TestSandbox[] = [];
  for (let made = 0; made < count; made += 1) sandboxes.push(await runner.create());
  return await use(sandboxes, runner);
}

/** Calls with the product's provider, closed afterwards. */
export async function withProvider<Result>(use: (provider: SandboxProvider) => Promise<Result>): Promise<Result> {
  const provider = openProduct();
  try {
    return await use(provider);
  } finally {
    await provider.close();
  }
}

/** Calls with one sandbox of the product's provider. */
export async function withSandbox<Result>(
  spec: SandboxSpec,
  use: (sandbox: SandboxPort) => Promise<Result>,
): Promise<Result> {
  return await withProvider(async (provider) => {
    const sandbox = await provider.create(spec);
    try {
      return await use(sandbox);
    } finally {
      await sandbox.destroy();
    }
  });
}

/** Runs a command that must exit with 0, its output unread by anybody but the loop. */
export async function runInside(sandbox: Pick<SandboxPort, 'exec'>, request: ExecRequest): Promise<ExecRecord> {
  let record: ExecRecord | undefined;
  for await (const event of await sandbox.exec(request)) if (event.type === 'ended') record = event.record;
  if (record?.exit_code !== 0)
    throw new TypeError(`${request.argv.join(' ')} ended as ${record?.end} ${record?.exit_code}`);
  return record;
}
