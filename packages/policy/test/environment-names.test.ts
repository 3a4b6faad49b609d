import { describe, expect, it, test } from 'vitest';
import { refusedBesideAllowlist, refusedEnvironmentName } from '../src/index.ts';

test.each(['A', '_', 'TOKEN_2', 'path_to', 'LD_PRELOADED', 'MY_PATH', 'a1'])('%s may be set', (name) => {
  expect(refusedEnvironmentName(name)).toBeNull();
});

test.each(['', '1A', 'A-B', 'A B', 'A=B', 'Ä', 'A\n', 'a.b'])('%j is no name', (name) => {
  expect(refusedEnvironmentName(name)).toContain('no name');
});

test.each(['PATH', 'path', 'Ld_Preload', 'BASH_ENV', 'BASH_FUNC', 'NODE_OPTIONS', 'PYTHONPATH', 'DYLD_LIBRARY_PATH'])(
  '%s decides which code is loaded',
  (name) => {
    expect(refusedEnvironmentName(name)).toContain('may not be set');
  },
);

describe('refusedBesideAllowlist', () => {
  it.each([
    ...['PAGER', 'git_pager', 'GIT_SSH_COMMAND', 'EDITOR', 'VISUAL', 'LESSOPEN', 'MANPAGER', 'PS4', 'HOME', 'CDPATH'],
    ...['PYTHONPATH', 'PYTHONINSPECT', 'PERL5LIB', 'RUBYOPT', 'NODE_OPTIONS', 'JAVA_TOOL_OPTIONS', 'RSYNC_RSH'],
    ...[
      'TAPE',
      'TAR_OPTIONS',
      'MAKEFLAGS',
      'npm_config_script_shell',
      'SSH_ASKPASS',
      'LD_BIND_NOW',
      'XDG_CONFIG_HOME',
      'CC',
    ],
    ...['EDITOR', 'MFLAGS', 'GNUMAKEFLAGS', 'CXX', 'LOCALE_ARCHIVE', 'AWKPATH', 'GCONV_PATH', 'GETCONF_DIR'],
    ...[
      'OPENSSL_CONF',
      'OPENSSL_MODULES',
      'GTK_MODULES',
      'CURL_HOME',
      'GNUPGHOME',
      'WGETRC',
      'PSQLRC',
      'ZIP',
      'EXINIT',
    ],
    ...['KUBECONFIG', 'AWS_CONFIG_FILE', 'GOENV', 'GOFLAGS', 'TCLLIBPATH', 'JULIA_DEPOT_PATH', 'ERL_ZFLAGS'],
  ])('%s', (name) => {
    expect(refusedBesideAllowlist(name, 'x')).toContain('decides what a listed program runs');
  });

  it.each([
    ...['API_KEY', 'DATABASE_URL', 'LANG', 'LC_ALL', 'TZ', 'NO_COLOR', 'TERM', 'DEBUG', 'CI', 'TOKEN', 'port'],
    ...['PYTHONUNBUFFERED', 'AWS_SECRET_ACCESS_KEY', 'OPENAI_API_KEY', 'STRIPE_KEY', 'TMPDIR', 'USER'],
    ...['GOOGLE_API_KEY', 'AWS_REGION', 'DATA_SRC', 'APP_CONFIG', 'KUBE_NAMESPACE'],
  ])('not %s', (name) => {
    expect(refusedBesideAllowlist(name, 'C.UTF-8')).toBeNull();
  });

  it.each(['zh_TW', 'zh_CN.GBK', 'ja_JP.SJIS', 'zh_HK.big5hkscs'])(
    'a locale in which shells read otherwise: %s',
    (value) => {
      for (const name of ['LANG', 'LC_ALL', 'LC_CTYPE']) {
        expect(refusedBesideAllowlist(name, value)).toContain('how a shell reads text');
      }
    },
  );
});
