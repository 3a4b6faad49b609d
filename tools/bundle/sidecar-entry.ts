/** First module of the sidecar in a bundle: the cache is on before the program is compiled. */
import './service-cache.ts';

await import('../../packages/local/src/sidecar/main.ts');
