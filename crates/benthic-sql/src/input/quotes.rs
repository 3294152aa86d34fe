//! Finds a quote that is not closed.

use benthic_core::Error;
use std::io::{self, Read};

/// Passes CSV through, and fails at its end if a quote is open. The CSV reader would return the
/// rest of the text, with all its rows, as one value.
pub(super) struct Quotes<R> {
    from: R,
    delimiter: u8,
    quoting: Quoting,
    line: usize,
}

/// The kind of the next byte. As in the CSV reader, a quote at the beginning of a value opens it,
/// and two quotes inside it are one.
#[derive(Clone, Copy)]
enum Quoting {
    Start,
    Plain,
    Quoted { opened: usize },
    AfterQuote { opened: usize },
}

impl<R> Quotes<R> {
    pub(super) fn new(from: R, delimiter: u8) -> Quotes<R> {
        Quotes { from, delimiter, quoting: Quoting::Start, line: 1 }
    }

    fn pass(&mut self, byte: u8) {
        let ends = byte == self.delimiter || matches!(byte, b'\n' | b'\r');
        self.quoting = match self.quoting {
            Quoting::Start if byte == b'"' => Quoting::Quoted { opened: self.line },
            Quoting::Quoted { opened } if byte == b'"' => Quoting::AfterQuote { opened },
            Quoting::Quoted { opened } => Quoting::Quoted { opened },
            Quoting::AfterQuote { opened } if byte == b'"' => Quoting::Quoted { opened },
            Quoting::Start | Quoting::Plain | Quoting::AfterQuote { .. } if ends => Quoting::Start,
            Quoting::Start | Quoting::Plain | Quoting::AfterQuote { .. } => Quoting::Plain,
        };
        self.line += usize::from(byte == b'\n');
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(to)?;
        for byte in &to[..read] {
            self.pass(*byte);
        }
        match self.quoting {
            Quoting::Quoted { opened } if read == 0 && !to.is_empty() => {
                let error = Error::invalid_argument("a quote is not closed");
                Err(io::Error::other(error.with("line", opened)))
            }
            _ => Ok(read),
        }
    }
}
