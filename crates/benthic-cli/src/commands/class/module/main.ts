// A class that counts words. class.json describes it.

import { encode, errno, output, readInto, setXattr } from "./benthic";

const buffer = new Uint8Array(64 * 1024);

function isSpace(byte: u8): bool {
  return byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0c || byte == 0x0d;
}

/** The number of words in the object as text, or null. */
function words(): Uint8Array | null {
  let count: u64 = 0;
  let inWord = false;
  let len = readInto(0, buffer);
  for (let offset: u64 = 0; len > 0; len = readInto(offset, buffer)) {
    for (let i = 0; i < len; i++) {
      const space = isSpace(unchecked(buffer[i]));
      if (!space && !inWord) count++;
      inWord = !space;
    }
    offset += len;
  }
  return len < 0 ? null : encode(count.toString());
}

/** Returns the number of words in the object. */
export function count(): i32 {
  const number = words();
  return number ? output(number) : errno();
}

/** Stores the number of words in the attribute `words`. */
export function keep(): i32 {
  const number = words();
  return number ? setXattr("words", number) : errno();
}
