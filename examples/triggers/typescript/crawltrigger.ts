/**
 * Starts a run of a crawler, and stops one, straight through Temporal.
 *
 *     node crawltrigger.js start bookshop order-4711
 *     node crawltrigger.js stop crawl-bookshop-order-4711 "wrong site"
 *
 * Where Temporal is comes from its own variables: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY and so on.
 */
import { Client, Connection, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { loadClientConnectConfig } from '@temporalio/envconfig';

const TASK_QUEUE = 'crawler-lifecycle';
const WORKFLOW = 'CrawlerLifecycleWorkflow';
const USAGE = 'usage: crawltrigger start CRAWLER KEY | crawltrigger stop WORKFLOW REASON';

/** What a run is asked for with; docs/schemas/run-request.json has all fields. */
interface RunRequest {
  crawler: string;
  trigger: 'api' | 'manual' | 'scheduled';
  arguments?: Record<string, string>;
  tasks?: number;
  requested_by?: string;
}

/** Optional fields only; docs/schemas/stop-request.json has all of them. */
interface StopRequest {
  actor?: string;
  reason?: string;
  door?: string;
  /** with the actor it makes one stop of what is sent twice */
  asked_at?: string;
  force?: boolean;
}

/** The key is the caller's own name for the run: however often it is asked for, it is one run. */
async function start(client: Client, crawler: string, key: string): Promise<void> {
  const workflowId = `crawl-${crawler}-${key}`;
  const request: RunRequest = {
    crawler,
    trigger: 'api',
    arguments: { order: key },
    tasks: 2,
    requested_by: 'orders (TypeScript)',
  };
  try {
    const handle = await client.workflow.start(WORKFLOW, {
      workflowId,
      taskQueue: TASK_QUEUE,
      args: [request],
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
      workflowIdConflictPolicy: 'USE_EXISTING',
    });
    console.log(handle.workflowId, handle.firstExecutionRunId);
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    console.log(`${workflowId} has run already`);
  }
}

/** Returns as soon as Temporal has the wish; the stop is proved later. */
async function stop(client: Client, workflowId: string, reason: string): Promise<void> {
  const request: StopRequest = { actor: 'ann', reason, door: 'orders', asked_at: new Date().toISOString() };
  await client.workflow.getHandle(workflowId).signal('stop', request);
}

async function main([verb, first, second, ...more]: string[]): Promise<void> {
  if (first === undefined || second === undefined || more.length > 0) throw new Error(USAGE);
  const { connectionOptions, namespace } = loadClientConnectConfig();
  const connection = await Connection.connect(connectionOptions);
  try {
    const client = new Client({ connection, namespace });
    if (verb === 'start') await start(client, first, second);
    else if (verb === 'stop') await stop(client, first, second);
    else throw new Error(USAGE);
  } finally {
    await connection.close();
  }
}

main(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
