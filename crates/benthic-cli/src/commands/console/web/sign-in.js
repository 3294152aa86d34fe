// Signs in with the token from the URL's fragment, which browsers do not send to servers, or from the form.
const failure = document.getElementById('failure');

async function signIn(token) {
  failure.hidden = true;
  try {
    const response = await fetch('api/sign-in', {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ token }),
    });
    if (response.ok) { location.reload(); return; }
    const answer = await response.json();
    failure.textContent = answer.error.message;
  } catch (error) {
    failure.textContent = 'The console does not answer: ' + error.message;
  }
  failure.hidden = false;
  document.getElementById('token').focus();
}

document.getElementById('form').addEventListener('submit', (event) => {
  event.preventDefault();
  signIn(document.getElementById('token').value.trim());
});

const found = /^#token=(.+)$/.exec(location.hash);
if (found) {
  // The history of the browser keeps no token.
  history.replaceState(null, '', location.pathname + location.search);
  signIn(decodeURIComponent(found[1]));
} else {
  document.getElementById('token').focus();
}
