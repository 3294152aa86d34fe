//! Documents that the upstream sends, as a small tree. `s3s` parses only documents of clients.

use super::objects_error;
use benthic_core::{ErrorKind, Result};
use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::Event;

/// Maximum depth of a document. The documents of S3 have at most five levels.
const DEPTH_MAX: usize = 16;
/// Maximum number of elements. A page has at most 1,000 entries of about 20 elements.
const ELEMENTS_MAX: usize = 100_000;

/// An element with its text and children.
#[derive(Debug, Default)]
pub(super) struct Element {
    pub name: String,
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    /// Parses a document, and returns its root.
    ///
    /// # Errors
    /// `Unavailable`: the upstream has sent something else.
    pub fn parse(document: &[u8]) -> Result<Element> {
        Element::tree(document).ok_or_else(|| {
            objects_error(ErrorKind::Unavailable, "the upstream's answer is not a document of S3")
        })
    }

    fn tree(document: &[u8]) -> Option<Element> {
        let mut reader = Reader::from_str(std::str::from_utf8(document).ok()?);
        // The first element holds the root.
        let mut open = vec![Element::default()];
        let mut elements = 0;
        loop {
            match reader.read_event().ok()? {
                Event::Start(start) => {
                    elements += 1;
                    if open.len() > DEPTH_MAX || elements > ELEMENTS_MAX {
                        return None;
                    }
                    let name = start.local_name();
                    open.push(Element { name: name_of(name.as_ref())?, ..Element::default() });
                }
                Event::End(_) => {
                    let done = open.pop()?;
                    open.last_mut()?.children.push(done);
                }
                Event::Empty(start) => {
                    elements += 1;
                    if elements > ELEMENTS_MAX {
                        return None;
                    }
                    let name = start.local_name();
                    let child = Element { name: name_of(name.as_ref())?, ..Element::default() };
                    open.last_mut()?.children.push(child);
                }
                Event::Text(text) => open.last_mut()?.text.push_str(&text.xml10_content()),
                Event::CData(text) => open.last_mut()?.text.push_str(&text.xml10_content()),
                Event::GeneralRef(reference) => {
                    let text = &mut open.last_mut()?.text;
                    match reference.resolve_char_ref() {
                        Ok(Some(character)) => text.push(character),
                        // No document can have NUL, but some services repeat it from a request.
                        // Keys are encoded.
                        Err(_) => text.push(char::REPLACEMENT_CHARACTER),
                        Ok(None) => text.push_str(resolve_xml_entity(&reference.into_inner())?),
                    }
                }
                Event::Eof => {
                    let mut holder = open.pop().filter(|_| open.is_empty())?;
                    return holder.children.pop().filter(|_| holder.children.is_empty());
                }
                // Entities of its own would need a DTD.
                Event::DocType(_) => return None,
                Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            }
        }
    }

    /// The child with this name.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The children with this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The text of a child; empty if there is none.
    pub fn text_of(&self, name: &str) -> &str {
        self.child(name).map_or("", |child| child.text.as_str())
    }
}

fn name_of(name: &str) -> Option<String> {
    (name.len() <= 128).then(|| name.to_owned())
}

/// Text as the content of an element.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
