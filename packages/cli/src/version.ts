/** The version of this package; a test holds it equal to the manifest, which is not read at run time. */
export const VERSION = '0.1.0';
