//! Errors of local files: what was tried, the cause in plain words, and the path.

use crate::support::Home;

#[test]
fn errors_of_local_files_have_the_cause_in_plain_words() {
    let home = Home::with_pool();
    home.file("f", "data");
    home.file("tree/a", "a");
    home.ok(&["put", "p/o", "f"]);
    let create = "cannot create the file: no such file or directory path=/proc/out\n";
    assert_eq!(home.fails(3, &["get", "p/o", "/proc/out"]), format!("benthic: {create}"));
    assert!(home.fails(1, &["cp", "p/o", "/proc/out"]).starts_with(&format!("benthic: p/o: {create}")));
    let error = home.fails_with("not_found", &["get", "p/o", "/proc/out"]);
    assert_eq!(error["context"]["path"], "/proc/out");
    for (args, status, message) in [
        (&["put", "p/o", "missing"][..], 3, "cannot read the file: no such file or directory path=missing\n"),
        (&["put", "p/o", "f/x"], 15, "cannot read the file: not a directory path=f/x\n"),
        (&["get", "p/o", "f/x"], 15, "cannot create the file: not a directory path=f/x\n"),
        (&["get", "p/o", "none/x"], 3, "there is no such directory; create it first path=none\n"),
        (&["get", "p/o", "/dev/full"], 11, "cannot write the file: no space left on device path=/dev/full\n"),
        (
            &["exec", "p/o", "hello", "record", "@missing"],
            3,
            "cannot read the file: no such file or directory path=missing\n",
        ),
    ] {
        assert_eq!(home.fails(status, args), format!("benthic: {message}"), "{args:?}");
    }
    for (args, message) in [
        (
            &["cp", "./missing", "p/"][..],
            "benthic: ./missing: cannot read this file or directory: no such file or directory\n",
        ),
        (&["cp", "-r", "p/", "f"], "benthic: p/o: cannot create the directory: file exists path=f\n"),
    ] {
        assert!(home.fails(1, args).starts_with(message), "{args:?}: {}", home.fails(1, args));
    }
    let run =
        home.command(&["put", "p/o", "-"]).stdin(std::fs::File::open(home.path("tree")).unwrap()).output();
    let stderr = crate::support::failed(&run.unwrap(), 15);
    assert_eq!(stderr, "benthic: cannot read standard input: is a directory path=-\n");
}
