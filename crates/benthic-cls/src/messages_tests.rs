use super::{MESSAGES_MAX, RecentMessages, TEXT_BYTES_MAX};
use benthic_core::LogMessage;

#[test]
fn messages_and_their_texts_have_a_limit() {
    let recent = RecentMessages::default();
    for number in 0..2 * MESSAGES_MAX as u64 {
        recent.add(LogMessage {
            unix_ms: number,
            class: "hello".to_owned(),
            version: None,
            method: "record".to_owned(),
            client: "client.1".to_owned(),
            level: "info".to_owned(),
            text: "é".repeat(TEXT_BYTES_MAX),
        });
    }
    let messages = recent.read();
    assert_eq!(messages.len(), MESSAGES_MAX);
    assert_eq!(messages[0].unix_ms, MESSAGES_MAX as u64, "the oldest are dropped");
    assert!(messages.iter().all(|message| message.text.len() <= TEXT_BYTES_MAX));
}
