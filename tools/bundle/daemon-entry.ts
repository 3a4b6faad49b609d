/** First module of the daemon in a bundle: the cache is on before the program is compiled. */
import './service-cache.ts';

await import('../../packages/server/src/main.ts');
