// Calls every function of benthic.ts.

import * as benthic from "./benthic";
import { encode, Entry } from "./benthic";

let shown = "";

function addEntries(entries: Entry[]): void {
  for (let i = 0; i < entries.length; i++) {
    shown += benthic.decode(entries[i].key) + "=" + benthic.decode(entries[i].value) + ",";
  }
  shown += "|";
}

export function show(): i32 {
  benthic.log("show");
  shown += benthic.decode(benthic.input()!);
  shown += benthic.stat()!.sizeBytes == 6 ? "|six|" : "|?|";
  shown += benthic.decode(benthic.read(1, 2)!) + "|";
  shown += benthic.decode(benthic.getXattr("name")!);
  const none = benthic.getXattr("none");
  shown += !none && benthic.errno() == benthic.NOT_FOUND ? "|none|" : "|?|";
  addEntries(benthic.listXattrs()!);
  addEntries(benthic.omapGet([encode("k1"), encode("k9")])!);
  const first = benthic.omapRange(null, encode("k"), 2)!;
  addEntries(first.entries);
  shown += first.more ? "more|" : "end|";
  const last = benthic.omapRange(encode("k2"), encode("k"), 9)!;
  addEntries(last.entries);
  shown += last.more ? "more|" : "end|";
  shown += benthic.decode(benthic.call("hello", "say", encode("Ada"))!);
  return benthic.output(encode(shown));
}

export function change(): i32 {
  benthic.remove();
  benthic.create(true);
  benthic.writeFull(encode("abc"));
  benthic.append(encode("defgh"));
  benthic.write(1, encode("B"));
  benthic.zero(2, 1);
  benthic.truncate(6);
  benthic.setXattr("name", encode("value"));
  benthic.setXattr("empty", encode(""));
  benthic.omapClear();
  benthic.omapSet([
    new Entry(encode("k1"), encode("1")),
    new Entry(encode("k2"), encode("")),
    new Entry(encode("k3"), encode("3")),
    new Entry(encode("k4"), encode("4")),
  ]);
  return benthic.omapRemove([encode("k4")]);
}

export function fail(): i32 {
  return benthic.fail(benthic.ALREADY_EXISTS, benthic.decode(benthic.input()!));
}

export function crash(): i32 {
  const bytes = new Uint8Array(3);
  return bytes[benthic.input()!.length];
}
