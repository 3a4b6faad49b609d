/** A decoded image, four bytes a pixel. */
export interface Pixels {
  readonly data: Uint8ClampedArray;
  readonly width: number;
  readonly height: number;
}

declare global {
  /** What codecs call it, in a browser's words; they bring the class themselves. */
  interface ImageData extends Pixels {}
}
