//! The Parquet structures that a fragment accepts. Newer or rarer fields are missing on purpose:
//! the client reads files that contain them.
//!
//! Source: `src/main/thrift/parquet.thrift` of Apache Parquet's format.

use crate::thrift::Kind::{self, Binary, Bool, I8, I16, I32, I64, List};
use crate::thrift::Structure;

const fn structure(structure: &'static Structure) -> Kind {
    Kind::Structure(structure)
}

static EMPTY: Structure = Structure { fields: &[] };

static TIME_UNIT: Structure =
    Structure { fields: &[(1, structure(&EMPTY)), (2, structure(&EMPTY)), (3, structure(&EMPTY))] };
static DECIMAL: Structure = Structure { fields: &[(1, I32), (2, I32)] };
static TIME: Structure = Structure { fields: &[(1, Bool), (2, structure(&TIME_UNIT))] };
static INTEGER: Structure = Structure { fields: &[(1, I8), (2, Bool)] };
static LOGICAL_TYPE: Structure = Structure {
    fields: &[
        (1, structure(&EMPTY)),
        (2, structure(&EMPTY)),
        (3, structure(&EMPTY)),
        (4, structure(&EMPTY)),
        (5, structure(&DECIMAL)),
        (6, structure(&EMPTY)),
        (7, structure(&TIME)),
        (8, structure(&TIME)),
        (10, structure(&INTEGER)),
        (11, structure(&EMPTY)),
        (12, structure(&EMPTY)),
        (13, structure(&EMPTY)),
        (14, structure(&EMPTY)),
        (15, structure(&EMPTY)),
    ],
};

/// A node of the schema tree. The nodes are listed parents first. Field 5 is the number of
/// children.
pub static SCHEMA_ELEMENT: Structure = Structure {
    fields: &[
        (1, I32),
        (2, I32),
        (3, I32),
        (4, Binary),
        (5, I32),
        (6, I32),
        (7, I32),
        (8, I32),
        (9, I32),
        (10, structure(&LOGICAL_TYPE)),
    ],
};

static KEY_VALUE: Structure = Structure { fields: &[(1, Binary), (2, Binary)] };
static SORTING_COLUMN: Structure = Structure { fields: &[(1, I32), (2, Bool), (3, Bool)] };
static STATISTICS: Structure = Structure {
    fields: &[
        (1, Binary),
        (2, Binary),
        (3, I64),
        (4, I64),
        (5, Binary),
        (6, Binary),
        (7, Bool),
        (8, Bool),
        (9, I64),
    ],
};
static SIZE_STATISTICS: Structure = Structure { fields: &[(1, I64), (2, List(&I64)), (3, List(&I64))] };
static PAGE_ENCODING: Structure = Structure { fields: &[(1, I32), (2, I32), (3, I32)] };

static COLUMN_METADATA: Structure = Structure {
    fields: &[
        (1, I32),
        (2, List(&I32)),
        (3, List(&Binary)),
        (4, I32),
        (5, I64),
        (6, I64),
        (7, I64),
        (8, List(&structure(&KEY_VALUE))),
        (9, I64),
        (10, I64),
        (11, I64),
        (12, structure(&STATISTICS)),
        (13, List(&structure(&PAGE_ENCODING))),
        (14, I64),
        (15, I32),
        (16, structure(&SIZE_STATISTICS)),
    ],
};

pub static COLUMN_CHUNK: Structure = Structure {
    fields: &[
        (1, Binary),
        (2, I64),
        (3, structure(&COLUMN_METADATA)),
        (4, I64),
        (5, I32),
        (6, I64),
        (7, I32),
    ],
};

pub static ROW_GROUP: Structure = Structure {
    fields: &[
        (1, List(&structure(&COLUMN_CHUNK))),
        (2, I64),
        (3, I64),
        (4, List(&structure(&SORTING_COLUMN))),
        (5, I64),
        (6, I64),
        (7, I16),
    ],
};

static COLUMN_ORDER: Structure = Structure { fields: &[(1, structure(&EMPTY))] };

pub static FILE_METADATA: Structure = Structure {
    fields: &[
        (1, I32),
        (2, List(&structure(&SCHEMA_ELEMENT))),
        (3, I64),
        (4, List(&structure(&ROW_GROUP))),
        (5, List(&structure(&KEY_VALUE))),
        (6, Binary),
        (7, List(&structure(&COLUMN_ORDER))),
    ],
};

/// Header of a data page: field 1 is the number of values, fields 2 to 4 are encodings.
pub static DATA_PAGE: Structure =
    Structure { fields: &[(1, I32), (2, I32), (3, I32), (4, I32), (5, structure(&STATISTICS))] };
/// Header of a dictionary page: field 1 is the number of values, field 2 their encoding.
pub static DICTIONARY_PAGE: Structure = Structure { fields: &[(1, I32), (2, I32), (3, Bool)] };
/// Header of a data page of version 2: field 1 is the number of values, field 4 their encoding.
pub static DATA_PAGE_V2: Structure = Structure {
    fields: &[
        (1, I32),
        (2, I32),
        (3, I32),
        (4, I32),
        (5, I32),
        (6, I32),
        (7, Bool),
        (8, structure(&STATISTICS)),
    ],
};

/// Header of every page: field 2 is the decompressed size, field 3 the stored size.
pub static PAGE_HEADER: Structure = Structure {
    fields: &[
        (1, I32),
        (2, I32),
        (3, I32),
        (4, I32),
        (5, structure(&DATA_PAGE)),
        (7, structure(&DICTIONARY_PAGE)),
        (8, structure(&DATA_PAGE_V2)),
    ],
};

static ONLY_CHOICE: Structure = Structure { fields: &[(1, structure(&EMPTY))] };

/// Header of a Bloom filter: field 1 is the size of the filter. The other fields name the
/// algorithm, the hash and the compression, for each of which there is one.
pub static BLOOM_FILTER_HEADER: Structure = Structure {
    fields: &[
        (1, I32),
        (2, structure(&ONLY_CHOICE)),
        (3, structure(&ONLY_CHOICE)),
        (4, structure(&ONLY_CHOICE)),
    ],
};
