// Signs in with the token from the URL's fragment, which browsers do not send to servers, or from a form.
const failure = document.getElementById('failure');

const value = (id) => document.getElementById(id).value.trim();

async function signIn(secrets, field) {
  failure.hidden = true;
  try {
    const response = await fetch('api/sign-in', {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(secrets),
    });
    if (response.ok) { location.reload(); return; }
    const answer = await response.json();
    failure.textContent = answer.error.message;
  } catch (error) {
    failure.textContent = 'The console does not answer: ' + error.message;
  }
  failure.hidden = false;
  document.getElementById(field).focus();
}

document.getElementById('form').addEventListener('submit', (event) => {
  event.preventDefault();
  signIn({ token: value('token') }, 'token');
});
document.getElementById('key-form').addEventListener('submit', (event) => {
  event.preventDefault();
  signIn({ access_key: value('access-key'), secret_key: value('secret-key') }, 'secret-key');
});

const found = /^#token=(.+)$/.exec(location.hash);
if (found) {
  // The history of the browser keeps no token.
  history.replaceState(null, '', location.pathname + location.search);
  signIn({ token: decodeURIComponent(found[1]) }, 'token');
} else {
  document.getElementById('token').focus();
}
