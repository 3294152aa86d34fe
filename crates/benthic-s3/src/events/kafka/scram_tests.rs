use super::Scram;
use base64_simd::STANDARD;

/// The example of RFC 7677, whose nonce is not base64 of bytes.
fn example() -> Scram {
    let mut scram = Scram::sha_256("user", b"");
    scram.nonce = "rOprNGfwEbeRWgbNEkqO".to_owned();
    scram.first = format!("n=user,r={}", scram.nonce);
    scram
}

const CHALLENGE: &str =
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
const PROOF: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

#[test]
fn the_example_of_the_rfc() {
    let scram = example();
    assert_eq!(scram.first_message(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
    let (message, verifier) = scram.last_message(CHALLENGE, "pencil").expect("valid");
    assert_eq!(
        message,
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    );
    assert_eq!(verifier.check(PROOF), Ok(()));
}

#[test]
fn a_broker_that_does_not_know_the_password_is_refused() {
    let (_, verifier) = example().last_message(CHALLENGE, "pencil").expect("valid");
    for proof in ["", "v=", "v=AAAA", "e=other-error", &PROOF.replace("6rri", "6rrj"), &PROOF[2..]] {
        assert!(verifier.check(proof).is_err(), "{proof}");
    }
    let (_, verifier) = example().last_message(CHALLENGE, "Pencil").expect("valid");
    assert!(verifier.check(PROOF).is_err());
}

#[test]
fn invalid_challenges_are_refused() {
    for challenge in [
        "",
        "r=,s=,i=",
        // Another nonce, and the nonce of the client alone.
        &CHALLENGE.replace("r=rOpr", "r=rOps"),
        &CHALLENGE.replace("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", ""),
        &CHALLENGE.replace("s=W22Z", "s=!!!!"),
        &CHALLENGE.replace("i=4096", "i=4095"),
        &CHALLENGE.replace("i=4096", "i=16385"),
        &CHALLENGE.replace("i=4096", "i=4294967295"),
        &CHALLENGE.replace("i=4096", "i=-1"),
        &CHALLENGE.replace(",i=4096", ""),
        // An extension that the client must not ignore.
        &format!("m=x,{CHALLENGE}"),
    ] {
        assert!(example().last_message(challenge, "pencil").is_err(), "{challenge}");
    }
}

#[test]
fn users_are_escaped() {
    let scram = Scram::sha_512("a=b,c", &[1, 2, 3]);
    assert_eq!(scram.first_message(), format!("n,,n=a=3Db=2Cc,r={}", STANDARD.encode_to_string([1, 2, 3])));
}
